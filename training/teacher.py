"""What the target would have said next, over the draft vocabulary alone; and the loss against it."""

from __future__ import annotations

import torch

from training.batches import Batch

Place = tuple[torch.Tensor, torch.Tensor]
"""Numbers of conversations and of places in them, one pair a row."""


def vocabulary(batch_tokens: torch.Tensor, size: int, total: int) -> torch.Tensor:
    """The commonest ids, in ascending order. Ids that never occur come by their number: BPE numbers by frequency."""
    counts = torch.bincount(batch_tokens, minlength=total)
    ranked = torch.argsort(counts, descending=True, stable=True)
    return ranked[:size].sort().values


def chances(batch: Batch, rows: Place, ahead: int, lm_head: torch.Tensor) -> torch.Tensor:
    """Of each word in the draft vocabulary after token p + `ahead`. They add up to less than 1: the rest is elsewhere."""
    conversations, places = rows[0], rows[1] + ahead
    logits = batch.states[conversations, places, -1] @ lm_head.T
    return logits.sub_(batch.log_normalisers[conversations, places, None]).exp_()


def loss(states: torch.Tensor, lm_head: torch.Tensor, wanted: torch.Tensor) -> tuple[torch.Tensor, float]:
    """Cross-entropy, summed over rows, as something to go backward from; and its value.

    The gradient is written down rather than left to autograd, which would keep several copies of these large tables.
    """
    logits = states @ lm_head.T
    with torch.no_grad():
        log_chances = logits.log_softmax(-1)
        value = -float((wanted * log_chances).sum())
        gradient = log_chances.exp_().mul_(wanted.sum(-1, keepdim=True)).sub_(wanted)
    return (logits * gradient).sum(), value
