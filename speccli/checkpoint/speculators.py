"""The speculators format: config.json of vllm-project/speculators, as vLLM 0.32 reads it."""

from __future__ import annotations

from typing import Any

from speccli.checkpoint.config import integers, table

METHODS = {"eagle3": "eagle3", "peagle": "eagle3", "dflash": "dflash", "dflash2": "dflash", "dspark": "dspark"}
"""Its `speculators_model_type` to vLLM's method (`transformers_utils/configs/speculators`)."""

LAYER_ARCHITECTURES = {
    "eagle3": {"qwen3": "Eagle3Qwen3ForCausalLM", "llama": "Eagle3LlamaForCausalLM"},
    "peagle": {"qwen3": "PeagleQwen3ForCausalLM", "llama": "PeagleLlamaForCausalLM"},
}

COPIED = (
    "draft_vocab_size",
    "target_hidden_size",
    "mask_token_id",
    "block_size",
    "markov_rank",
    "markov_head_type",
    "norm_before_fc",
    "fc_norm",
    "sample_from_anchor",
    "eagle_aux_hidden_state_layer_ids",
)


def is_speculators(config: dict[str, Any]) -> bool:
    return isinstance(config.get("speculators_config"), dict)


def flattened(config: dict[str, Any]) -> dict[str, Any]:
    """The config that vLLM makes its draft model of."""
    flat = dict(table(config, "transformer_layer_config"))
    kind = config.get("speculators_model_type")
    flat |= {key: config[key] for key in COPIED if config.get(key) is not None}
    flat["architectures"] = [_architecture(kind, flat.get("model_type", "llama"))]
    if kind in ("dflash", "dflash2", "dspark"):
        flat |= _anchored(config)
    return flat


def speculative_tokens(config: dict[str, Any]) -> int | None:
    """The k that its author declared."""
    try:
        k = config["speculators_config"]["proposal_methods"][0]["speculative_tokens"]
    except (KeyError, IndexError, TypeError):
        return None
    return k if isinstance(k, int) else None


def verifier(config: dict[str, Any]) -> dict[str, Any]:
    """The target that it was trained for: name_or_path and architectures, where told."""
    return table(table(config, "speculators_config"), "verifier")


def _architecture(kind: object, model_type: object) -> str:
    if kind in ("dflash", "dflash2"):
        return "DFlashDraftModel" if kind == "dflash" else "DFlash2DraftModel"
    if kind == "dspark":
        return "Qwen3DSparkModel"
    return LAYER_ARCHITECTURES.get(str(kind), {}).get(str(model_type), f"{kind} over {model_type}")


def _anchored(config: dict[str, Any]) -> dict[str, Any]:
    """Layer ids count from the embedding here, and from the first layer in DFlash's own words."""
    own = {
        "mask_token_id": config.get("mask_token_id"),
        "target_layer_ids": [i - 1 for i in integers(config, "aux_hidden_state_layer_ids") or []],
        "sample_from_anchor": config.get("sample_from_anchor", False),
    }
    if config.get("speculators_model_type") == "dspark":
        return own
    return {"dflash_config": {key: value for key, value in own.items() if value is not None}}
