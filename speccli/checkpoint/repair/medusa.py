"""Medusa heads: from the layouts of their authors to vLLM's, with the counts taken from the weights.

authors'                                    vLLM's
{head}.{layer}.linear.weight | bias         blocks.{head}.layers.{layer}.weight | bias
{head}.{last}.weight                        lm_heads.{head}.weight
medusa_head.{the same}, beside the base
"""

from __future__ import annotations

import re
from typing import Any

from speccli.checkpoint.inspection import Inspection
from speccli.checkpoint.repair.remade import Remade

RESIDUAL = re.compile(r"(?:medusa_heads?\.)?(\d+)\.(\d+)\.linear\.(weight|bias)")
HEAD = re.compile(r"(?:medusa_heads?\.)?(\d+)\.(\d+)\.weight")
BLOCK = re.compile(r"(?:medusa_heads\.)?blocks\.(\d+)\.layers\.(\d+)\.(weight|bias)")

KEPT = ("truncated_vocab_size", "original_lm_head", "logit_scale", "base_model_name_or_path")


def repaired(remade: Remade, head: Inspection, target: Inspection) -> Remade:
    named = remade.renamed(vllm_name)
    config = config_of(named, head, target)
    reason = _reason(head, config)
    return Remade(config, named.tensors, (*remade.reasons, reason)) if reason and config["num_heads"] else remade


def without_heads(remade: Remade) -> Remade:
    """The base of a merged checkpoint, since vLLM stops at tensors that its class does not have."""
    kept = {name: made for name, made in remade.tensors.items() if not name.startswith("medusa_head.")}
    if len(kept) == len(remade.tensors):
        return remade
    config = {key: value for key, value in remade.config.items() if not key.startswith("medusa")}
    reason = "vLLM stops at the Medusa heads among the tensors of a base model; they are left out"
    return Remade(config, kept, (*remade.reasons, reason))


def vllm_name(name: str) -> str | None:
    """The name in vLLM's layout; None for what is no part of the heads."""
    if match := RESIDUAL.fullmatch(name):
        return f"blocks.{match[1]}.layers.{match[2]}.{match[3]}"
    if match := HEAD.fullmatch(name):
        return f"lm_heads.{match[1]}.weight"
    name = name.removeprefix("medusa_heads.")
    return name if name.startswith(("blocks.", "lm_head", "token_map")) else None


def counts(names: set[str]) -> tuple[int, int, bool]:
    """Heads, residual layers of each, and whether these have biases: by the tensors, whatever a config says."""
    blocks = [match for match in map(BLOCK.fullmatch, names) if match]
    heads = {int(name.split(".")[1]) for name in names if name.startswith("lm_heads.")}
    heads |= {int(match[1]) for match in blocks}
    layers = {int(match[2]) for match in blocks}
    return max(heads, default=-1) + 1, max(layers, default=-1) + 1, any(match[3] == "bias" for match in blocks)


def config_of(named: Remade, head: Inspection, target: Inspection) -> dict[str, Any]:
    """vLLM's config for heads whose tensors have vLLM's names. It takes any key with `num` and `heads` for the count."""
    num_heads, num_layers, has_bias = counts(set(named.tensors))
    rows = {made.shape for name, made in named.tensors.items() if name.startswith("lm_head") and len(made.shape) == 2}
    vocab_size, hidden_size = next(iter(rows)) if rows else (target.architecture.vocab_size, None)
    token_map = named.tensors.get("token_map")
    kept = {key: head.config[key] for key in KEPT if key in head.config}
    if token_map is not None and token_map.shape:
        kept["truncated_vocab_size"] = token_map.shape[0]
        vocab_size = target.architecture.vocab_size
    return kept | {
        "model_type": "medusa",
        "architectures": ["MedusaModel"],
        "hidden_size": hidden_size,
        "vocab_size": vocab_size,
        "num_heads": num_heads,
        "num_hidden_layers": num_layers,
        "medusa_fc_bias": has_bias,
        "torch_dtype": target.architecture.dtype or "float16",
    }


def _reason(head: Inspection, config: dict[str, Any]) -> str:
    found = f"{config['num_heads']} heads of width {config['hidden_size']}"
    if head.kind.layout == "medusa-merged":
        return f"Medusa heads merged with their base: {found} are taken out"
    if head.kind.layout == "medusa-author":
        told = head.config.get("medusa_num_heads", "no count")
        biases = "; vLLM would drop their biases" if config["medusa_fc_bias"] else ""
        return f"Medusa heads in their authors' layout: {found}, where config.json says {told}{biases}"
    wrong = [
        f"{key} is {head.config.get(key, 'missing')}, by the weights {config[key]}"
        for key in ("hidden_size", "num_hidden_layers", "medusa_fc_bias", "truncated_vocab_size")
        if key in config and head.config.get(key, False) != config[key]
    ]
    return f"config.json of Medusa heads: {'; '.join(wrong)}" if wrong else ""
