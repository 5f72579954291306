"""Draft models whose embedding is padded to another size than the target's, such as Qwen2.5's small and large ones."""

from __future__ import annotations

from typing import Any

from speccli.checkpoint import tokenizer
from speccli.checkpoint.config import table
from speccli.checkpoint.inspection import Inspection
from speccli.checkpoint.repair.remade import Made, Remade, Resize

ROWS = ("embed_tokens.weight", "lm_head.weight", "lm_head.bias")


def repaired(remade: Remade, draft: Inspection, target: Inspection) -> Remade:
    have, want = draft.architecture.vocab_size, target.architecture.vocab_size
    if have is None or want is None or have == want or not is_padding_only(draft, target):
        return remade
    resized = {
        name: Made(made.dtype, (want, *made.shape[1:]), Resize(name))
        for name, made in remade.tensors.items()
        if name.endswith(ROWS) and made.shape[:1] == (have,)
    }
    if not resized:
        return remade
    reason = f"the draft's embedding has {have:,} rows, the target's {want:,}, and both have the same tokenizer"
    return remade.because(reason, _with_vocab_size(draft.config, want), resized)


def is_padding_only(draft: Inspection, target: Inspection) -> bool:
    """Whether the ids that mean something mean the same, and fit into the smaller embedding."""
    if draft.tokenizer is None or target.tokenizer is None:
        return False
    rows = min(draft.architecture.vocab_size or 0, target.architecture.vocab_size or 0)
    sizes = max(draft.tokenizer.size, target.tokenizer.size)
    return sizes <= rows and tokenizer.compare(target.tokenizer, draft.tokenizer).num_differing_ids == 0


def _with_vocab_size(config: dict[str, Any], vocab_size: int) -> dict[str, Any]:
    if "vocab_size" not in config and table(config, "text_config"):
        return {"text_config": table(config, "text_config") | {"vocab_size": vocab_size}}
    return {"vocab_size": vocab_size}
