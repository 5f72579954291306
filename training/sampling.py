"""Picks next tokens from logits."""

from __future__ import annotations

import torch

TOP_K, TOP_P = 100, 0.95


def pick(logits: torch.Tensor, temperatures: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """A token a row: the likeliest where the temperature is 0, else by the row's number from [0, 1)."""
    values, ids = logits.topk(min(TOP_K, logits.shape[-1]))
    probabilities = (values / temperatures.clamp(min=1e-3)[:, None]).softmax(-1)
    before = probabilities.cumsum(-1) - probabilities
    kept = probabilities * (before < TOP_P)
    reached = kept.cumsum(-1)
    place = torch.searchsorted(reached, uniforms[:, None] * reached[:, -1:], right=True)
    place = torch.where(temperatures[:, None] > 0, place.clamp(max=values.shape[-1] - 1), 0)
    return ids.gather(-1, place).squeeze(-1)
