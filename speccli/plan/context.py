"""Context: the longest that a model was made for."""

from __future__ import annotations

from speccli.checkpoint import Checkpoint
from speccli.checkpoint.config import table, word
from speccli.checkpoint.inspection import language_model

UNSCALED = ("su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling")
"""Ways to scale rotary positions that `max_position_embeddings` already counts."""


def own_context(target: Checkpoint) -> int | None:
    """`vllm/config/model.py: _get_and_verify_max_len`. None where nothing tells it, or where scaled positions make it longer."""
    model = language_model(target.config)
    parts = [table(model, key) for key in ("rope_scaling", "rope_parameters")]
    scaled = any("factor" in part and word(part, "rope_type") not in UNSCALED for part in parts)
    return None if scaled else target.max_position_embeddings
