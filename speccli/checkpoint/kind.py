"""What a checkpoint is, told by its config and its tensors and never by its name."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Literal

import msgspec

from speccli.checkpoint import speculators
from speccli.checkpoint.config import positive, table, words

Layout = Literal["plain", "speculators", "medusa-author", "medusa-merged"]
"""How it is written down: as vLLM reads it, in the speculators format, as Medusa's authors publish heads alone or
merged with their base."""

MTP_KEYS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules")

EAGLE_ARCHITECTURE = re.compile(r"EAGLEModel|Eagle[A-Z]\w*(ForCausalLM|MTPModel)|\w+ForCausalLMEagle")

AUTHOR_HEAD = re.compile(r"(?:medusa_heads?\.)?\d+\.\d+\.(?:linear\.)?(?:weight|bias)")


class Kind(msgspec.Struct, frozen=True):
    """`method` is vLLM's word for how such a checkpoint speculates; "draft_model" for a language model of its own."""

    method: str
    layout: Layout
    because: str


def recognised(config: dict[str, Any], files: Collection[str], tensors: Collection[str] | None) -> Kind:
    """The first of these that fits. `tensors` is None where their names are not known."""
    names = tensors or ()
    return (
        _speculators(config)
        or _by_architecture(config)
        or _medusa(config, files, names)
        or _by_model_type(config)
        or _eagle(names)
        or Kind("draft_model", "plain", f"architectures is {config.get('architectures')}")
    )


def num_mtp_layers(config: dict[str, Any]) -> int:
    """The multi-token-prediction layers that a target's config claims."""
    parts = (config, table(config, "text_config"), table(config, "mtp_config"))
    return max(positive(part, key) or 0 for part in parts for key in MTP_KEYS)


def _speculators(config: dict[str, Any]) -> Kind | None:
    if not speculators.is_speculators(config):
        return None
    told = str(config.get("speculators_model_type"))
    return Kind(speculators.METHODS.get(told, told), "speculators", f"speculators_model_type is {told}")


def _by_architecture(config: dict[str, Any]) -> Kind | None:
    for architecture in words(config, "architectures"):
        because = f"architectures is {architecture}"
        if "DSpark" in architecture:
            return Kind("dspark", "plain", because)
        if "DFlash" in architecture or architecture in ("LiLiCorrDraftModel", "MuseGlimmerAssistantModel"):
            return Kind("dflash", "plain", because)
        if "eagle3" in architecture.lower() or architecture.lower().startswith("peagle"):
            return Kind("eagle3", "plain", because)
        if EAGLE_ARCHITECTURE.fullmatch(architecture):
            return Kind("eagle", "plain", because)
    return Kind("dflash", "plain", "config.json has dflash_config") if config.get("dflash_config") else None


def _medusa(config: dict[str, Any], files: Collection[str], names: Collection[str]) -> Kind | None:
    if any(name.startswith("medusa_head.") for name in names) and any("layers.0." in name for name in names):
        return Kind("medusa", "medusa-merged", "base model and tensors medusa_head.* in one checkpoint")
    if config.get("medusa_num_heads") and any("CausalLM" in name for name in words(config, "architectures")):
        return Kind("medusa", "medusa-merged", "config.json of a base model with medusa_num_heads")
    if any(AUTHOR_HEAD.fullmatch(name) for name in names):
        return Kind("medusa", "medusa-author", "tensors 0.0.linear.weight, 0.1.weight, ...")
    if "medusa_lm_head.pt" in files or (config.get("medusa_num_heads") and "model_type" not in config):
        return Kind("medusa", "medusa-author", "medusa_num_heads without model_type, or medusa_lm_head.pt")
    if config.get("model_type") == "medusa":
        return Kind("medusa", "plain", "model_type is medusa")
    return None


def _by_model_type(config: dict[str, Any]) -> Kind | None:
    model_type = str(config.get("model_type"))
    because = f"model_type is {model_type}"
    if model_type == "mlp_speculator":
        return Kind("mlp_speculator", "plain", because)
    if model_type in ("gemma4_assistant", "gemma4_unified_assistant") or model_type.endswith("_mtp"):
        return Kind("mtp", "plain", because)
    return Kind("eagle", "plain", because) if model_type == "eagle" else None


def _eagle(names: Collection[str]) -> Kind | None:
    """EAGLE heads call themselves what their one layer is made like, so only tensors tell them from small models."""
    short = {name.removeprefix("model.") for name in names}
    if any(name.startswith("midlayer.") or ".hidden_norm." in name or name == "d2t" for name in short):
        return Kind("eagle3", "plain", "tensors d2t, midlayer.* or hidden_norm")
    if "fc.weight" in short:
        return Kind("eagle", "plain", "tensor fc.weight over a layer without input_layernorm")
    return None
