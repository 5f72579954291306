"""What the target would have said next, over the draft vocabulary alone; and the loss against it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from training.batches import Batch

Place = tuple[torch.Tensor, torch.Tensor]
"""Numbers of conversations and of places in them, one pair a row."""


def vocabulary(batch_tokens: torch.Tensor, size: int, total: int) -> torch.Tensor:
    """The commonest ids, in ascending order. Ids that never occur come by their number: BPE numbers by frequency."""
    counts = torch.bincount(batch_tokens, minlength=total)
    ranked = torch.argsort(counts, descending=True, stable=True)
    return ranked[:size].sort().values


@dataclass(frozen=True, slots=True)
class Lesson:
    """What the target would have said next at every place that a head is to learn from."""

    words: torch.Tensor
    """Those of the draft vocabulary that this batch looks at, by their rows in lm_head, in ascending order."""
    _chances: torch.Tensor
    _numbers: torch.Tensor

    def chances(self, conversations: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """Of each word after the tokens at these places: [places, words]. They add up to less than 1: the rest is elsewhere."""
        return self._chances[self._numbers[conversations, places]]


def lesson(batch: Batch, rows: Place, lm_head: torch.Tensor, num_words: int, generator: torch.Generator) -> Lesson:
    """Of the places right after those in `rows`, with the likeliest words of this batch and some drawn from the others.

    A full softmax would cost more than the head itself. The words that matter here are among the likeliest; those drawn
    teach the head to leave the others alone.
    """
    conversations, places = rows[0], rows[1] + 1
    with torch.autocast("cpu", enabled=False):
        logits = batch.states[conversations, places, -1] @ lm_head.T
    chances = logits.sub_(batch.log_normalisers[conversations, places, None]).exp_()
    numbers = torch.full(batch.tokens.shape, -1)
    numbers[conversations, places] = torch.arange(len(places))
    words = _words(chances, num_words, generator)
    return Lesson(words, chances if len(words) == len(lm_head) else chances[:, words], numbers)


def _words(chances: torch.Tensor, count: int, generator: torch.Generator) -> torch.Tensor:
    """A fifth of them drawn."""
    size = chances.shape[1]
    if not 0 < count < size:
        return torch.arange(size)
    ranked = chances.sum(0).argsort(descending=True)
    drawn = count // 5
    others = ranked[count - drawn :]
    chosen = others[torch.randperm(len(others), generator=generator)[:drawn]]
    return torch.cat([ranked[: count - drawn], chosen]).sort().values


def loss(states: torch.Tensor, lm_head: torch.Tensor, wanted: torch.Tensor) -> tuple[torch.Tensor, float]:
    """Cross-entropy over the words of a lesson, summed over rows, as something to go backward from; and its value.

    The gradient is written down rather than left to autograd, which would keep several copies of these large tables.
    """
    logits = states @ lm_head.T
    with torch.no_grad():
        log_chances = logits.log_softmax(-1)
        value = -float((wanted * log_chances).sum())
        gradient = log_chances.exp_().mul_(wanted.sum(-1, keepdim=True)).sub_(wanted)
    return (logits * gradient).sum(), value
