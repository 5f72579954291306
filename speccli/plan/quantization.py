"""How many bytes a weight takes in each format of checkpoints."""

from __future__ import annotations

from typing import Any

import msgspec

from speccli.checkpoint.config import positive, table, word, words

BLOCK_SCALE = 4 / (128 * 128)
"""One float32 for each block of 128 by 128."""


class Format(msgspec.Struct, frozen=True, kw_only=True):
    """`linear` and `experts`: bytes of one weight, its share of the scales included. Embeddings and lm_head keep theirs."""

    name: str
    linear: float
    experts: float
    is_quantized: bool = True
    pads_experts: bool = False
    """Its kernels round the experts' sizes up (`fused_moe/oracle/mxfp4.py`)."""
    unpacks: bool = False
    """Its kernels unpack one matrix at a time into a buffer of 16 bits."""


def of_config(config: dict[str, Any], dtype_bytes: int) -> Format:
    """From `quantization_config`. An unknown method is taken as 8 bits."""
    told = table(config, "quantization_config") or table(config, "compression_config")
    if not told:
        return Format(name="", linear=dtype_bytes, experts=dtype_bytes, is_quantized=False)
    name = str(told.get("quant_method", "unknown"))
    size = _bytes(name, told)
    if name == "mxfp4":
        skips = any("attn" in part for part in words(told, "modules_to_not_convert"))
        return Format(name=name, linear=2 if skips else size, experts=size, pads_experts=True)
    return Format(name=name, linear=size, experts=size, unpacks=name == "bitsandbytes")


def _bytes(name: str, told: dict[str, Any]) -> float:
    if name in ("awq", "gptq", "gptq_marlin", "awq_marlin"):
        bits, group = positive(told, "bits") or positive(told, "w_bit") or 4, positive(told, "group_size") or 128
        return bits / 8 + (2 + bits / 8) / group
    if name == "bitsandbytes":
        return 0.516 if told.get("load_in_4bit") or told.get("_load_in_4bit") else 1.0
    if name == "mxfp4":
        return 4.25 / 8
    if name == "compressed-tensors":
        return _compressed(told)
    if name in ("modelopt", "modelopt_fp4") and "FP4" in str(told.get("quant_algo", name)).upper():
        return 0.5 + 1 / 16
    return 1 + (BLOCK_SCALE if told.get("weight_block_size") else 0.0)


def _compressed(told: dict[str, Any]) -> float:
    """The format of compressed-tensors: the weights of its first group of layers."""
    groups = list(table(told, "config_groups").values())
    weights = table(groups[0], "weights") if groups and isinstance(groups[0], dict) else {}
    bits = positive(weights, "num_bits") or 8
    group = positive(weights, "group_size")
    if bits == 4 and word(weights, "type") == "float":
        return 0.5 + 1 / (group or 16)
    if group is None:
        return bits / 8
    return bits / 8 + (2 + (0 if weights.get("symmetric") is not False else bits / 8)) / group
