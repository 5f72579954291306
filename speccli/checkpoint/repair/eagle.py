"""EAGLE-1 heads: other tensor names, a head or a norm too many, a bias of `fc`, and families that vLLM has no class for.

The one layer of an EAGLE-1 head is Llama's, without a norm at its input, whatever family the target is of. So the bias
of `fc`, which vLLM drops, can be folded into the biases of the attention: these see h + b where h is without it, hence
W b for queries, keys and values, and b itself, by way of the output's bias, for the residual.
"""

from __future__ import annotations

from typing import Any

from speccli.checkpoint import heads
from speccli.checkpoint.config import words
from speccli.checkpoint.header import Tensor
from speccli.checkpoint.inspection import Inspection, of_parts
from speccli.checkpoint.repair.remade import Copy, Fold, Made, Remade, Zeros

OTHER_CLASSES = ("Llama4", "MiniCPM", "Cohere", "Mistral", "MistralLarge3", "DeepSeekMTPModel")
"""Families beside Llama of which vLLM has an EAGLE-1 class, with a layout of its own."""

BIAS_KEYS = ("attention_bias", "qkv_bias", "bias")

LLAMA_KEYS = (
    "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim",
    "vocab_size", "max_position_embeddings", "rms_norm_eps", "rope_theta", "rope_scaling", "rope_parameters",
    "hidden_act", "initializer_range", "bos_token_id", "eos_token_id", "pad_token_id", "torch_dtype", "dtype",
    "tie_word_embeddings", "draft_vocab_size", "transformers_version",
)  # fmt: skip


def repaired(remade: Remade, head: Inspection) -> Remade:
    """The repaired head, if it then is what vLLM's class holds; else what there was."""
    steps = _unpacked(remade, head)
    if _family(steps.config) in OTHER_CLASSES:
        return remade
    steps = _folded(_without_surplus(_stripped(steps), head.config))
    steps = _with_biases_told(_as_llama(steps))
    return steps if steps.reasons != remade.reasons and _fits(steps) else remade


def _family(config: dict[str, Any]) -> str | None:
    name = _architecture(config)
    return name.removeprefix("Eagle").removesuffix("Eagle").removesuffix("ForCausalLM") if name else None


def _architecture(config: dict[str, Any]) -> str | None:
    return next(iter(words(config, "architectures")), None)


def _unpacked(remade: Remade, head: Inspection) -> Remade:
    """From the layout that vLLM's first engine asked for: the layer's config nested under `model`."""
    if head.config.get("model_type") != "eagle" or head.model is head.config:
        return remade
    reason = "its config is in the layout of vLLM's first engine"
    return Remade(head.model, remade.tensors, (*remade.reasons, reason))


def _stripped(remade: Remade) -> Remade:
    stripped = remade.renamed(lambda name: name.removeprefix("model.").removeprefix("model."))
    if stripped.tensors.keys() == remade.tensors.keys():
        return remade
    return stripped.because("its tensors are named model.layers.*, where vLLM wants layers.*")


def _without_surplus(remade: Remade, config: dict[str, Any]) -> Remade:
    """The first engine's layout carried a norm that its code passed over; elsewhere a norm was trained to be used."""
    surplus = [name for name in remade.tensors if name.startswith("lm_head.")]
    if config.get("model_type") == "eagle":
        surplus += [name for name in remade.tensors if name == "layers.0.input_layernorm.weight"]
    if not surplus:
        return remade
    kept = remade.renamed(lambda name: None if name in surplus else name)
    return kept.because(f"vLLM stops at {' and '.join(surplus)}, for which it uses the target's or nothing")


def _folded(remade: Remade) -> Remade:
    """Not where the output has a bias already, which EAGLE's authors' layer never has."""
    bias = remade.tensors.get("fc.bias")
    if bias is None or not isinstance(bias.recipe, Copy) or "layers.0.self_attn.o_proj.bias" in remade.tensors:
        return remade
    vector = bias.recipe.tensor
    biases = {
        f"layers.0.self_attn.{p}_proj.bias": _product(remade, f"layers.0.self_attn.{p}_proj", vector) for p in "qkv"
    }
    biases["layers.0.self_attn.o_proj.bias"] = bias
    for name, made in remade.tensors.items():
        if name.endswith(("q_proj.weight", "k_proj.weight", "v_proj.weight", "o_proj.weight")):
            beside = f"{name.removesuffix('weight')}bias"
            if beside not in biases and beside not in remade.tensors:
                biases[beside] = Made(made.dtype, made.shape[:1], Zeros(_source(made)))
    kept = remade.renamed(lambda name: None if name == "fc.bias" else name)
    told = {name: made for name, made in biases.items() if made is not None}
    reason = "vLLM drops fc.bias; it is folded into the biases of the attention, which comes to the same"
    return kept.because(reason, {"attention_bias": True, "qkv_bias": True}, told)


def _product(remade: Remade, projection: str, vector: str) -> Made | None:
    weight, own = remade.tensors.get(f"{projection}.weight"), remade.tensors.get(f"{projection}.bias")
    if weight is None:
        return None
    return Made(weight.dtype, weight.shape[:1], Fold(_source(weight), vector, _source(own) if own else None))


def _source(made: Made) -> str:
    return made.recipe.tensor


def _as_llama(remade: Remade) -> Remade:
    name = _architecture(remade.config)
    if name in heads.LLAMA_EAGLE and remade.config.get("model_type") == "llama":
        return remade
    config = {key: remade.config[key] for key in (*LLAMA_KEYS, *BIAS_KEYS) if key in remade.config}
    config |= {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
    reason = f"vLLM has no EAGLE class for {name}" if name else "its config names no architecture"
    return Remade(config, remade.tensors, (*remade.reasons, f"{reason}; its one layer is Llama's"))


def _with_biases_told(remade: Remade) -> Remade:
    """vLLM reads `bias` as the attention's, where EAGLE's authors mean that of `fc`."""
    has = {name: f"layers.0.self_attn.{name}_proj.bias" in remade.tensors for name in "qo"}
    config = remade.config
    attention = bool(config.get("attention_bias") or config.get("bias"))
    if (bool(config.get("qkv_bias", attention)), attention) == (has["q"], has["o"]):
        return remade
    told = {key: value for key, value in config.items() if key != "bias"}
    told |= {"attention_bias": has["o"], "qkv_bias": has["q"]}
    reason = "the config says other biases of the attention than the tensors hold"
    return Remade(told, remade.tensors, (*remade.reasons, reason))


def _fits(remade: Remade) -> bool:
    tensors = {name: Tensor(made.dtype, made.shape, made.size_bytes) for name, made in remade.tensors.items()}
    seen = of_parts(
        name="", folder=None, config=remade.config, files={}, weight_files={}, tensors=tensors, tokenizer=None
    )
    expected, shapes = heads.expected(seen, "eagle"), heads.shapes(seen)
    return expected is not None and not (
        expected.missing(shapes) or expected.unexpected(shapes) or expected.misshapen(shapes)
    )
