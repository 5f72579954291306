"""EAGLE-3 heads whose config leaves out what their tensors show: vocabulary, number and width of hidden states."""

from __future__ import annotations

from typing import Any

from speccli.checkpoint import heads
from speccli.checkpoint.config import table
from speccli.checkpoint.inspection import Inspection
from speccli.checkpoint.repair.remade import Remade


def repaired(remade: Remade, head: Inspection, target: Inspection) -> Remade:
    for told, reason in (_vocabulary(head), _hidden_states(head, target), _architecture(head)):
        if told:
            remade = remade.because(reason, _placed(remade.config, head, told))
    return remade


def _vocabulary(head: Inspection) -> tuple[dict[str, Any], str]:
    rows, offsets = head.shape("lm_head.weight"), head.shape("d2t")
    if not rows or not offsets or rows[0] != offsets[0] or rows[0] == heads.draft_vocab_size(head):
        return {}, ""
    told = head.model.get("draft_vocab_size", "missing")
    return {"draft_vocab_size": rows[0]}, f"draft_vocab_size is {told}, and lm_head and d2t have {rows[0]:,} rows"


def _hidden_states(head: Inspection, target: Inspection) -> tuple[dict[str, Any], str]:
    """vLLM makes `fc` for three states unless told otherwise, even where the config lists more layers."""
    fc, hidden = head.shape("fc.weight"), head.architecture.hidden_size
    count = len(heads.aux_layer_ids(head) or range(3))
    if fc is None or len(fc) != 2 or hidden is None or fc[1] % count:
        return {}, ""
    width = fc[1] // count
    told: dict[str, Any] = {}
    if heads.num_aux_layers(head) != count:
        told["num_aux_hidden_states"] = count
    if width != heads.target_hidden_size(head):
        told["target_hidden_size"] = width
    is_targets = width == target.architecture.hidden_size
    return (
        (told, f"fc takes {count} hidden states of width {width}, which the config does not say")
        if is_targets
        else ({}, "")
    )


def _architecture(head: Inspection) -> tuple[dict[str, Any], str]:
    if head.architecture.name is not None or head.kind.layout == "speculators":
        return {}, ""
    told = {"architectures": ["LlamaForCausalLMEagle3"], "model_type": head.config.get("model_type", "llama")}
    return told, "its config names no architecture; by its tensors it is an EAGLE-3 head"


def _placed(config: dict[str, Any], head: Inspection, told: dict[str, Any]) -> dict[str, Any]:
    """In the speculators format vLLM hands on what stands under transformer_layer_config, and few keys beside it."""
    if head.kind.layout != "speculators":
        return told
    layer = table(config, "transformer_layer_config") | told
    return {"transformer_layer_config": layer} | {k: v for k, v in told.items() if k != "num_aux_hidden_states"}
