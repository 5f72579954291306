"""Medusa heads as vLLM's class for them computes (`models/medusa.py`), with one lm_head for all.

At place p every head sees the target's final state of token p alone; head i drafts token p + 2 + i.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from training.target import Target

Weights = dict[str, torch.Tensor]


def initial(target: Target, vocabulary: torch.Tensor, heads: int, layers: int) -> Weights:
    """Every head starts as the target's own next word."""
    hidden = target.hidden_size
    weights = {"lm_head.weight": target.lm_head[vocabulary].clone()}
    for i in range(heads):
        for j in range(layers):
            noise = torch.randn(hidden, hidden, generator=torch.Generator().manual_seed(100 * i + j))
            weights[f"blocks.{i}.layers.{j}.weight"] = noise * 0.01
            weights[f"blocks.{i}.layers.{j}.bias"] = torch.zeros(hidden)
    return weights


def counts(weights: Weights) -> tuple[int, int]:
    """Heads, and layers of each."""
    numbers = [tuple(int(part) for part in name.split(".")[1:4:2]) for name in weights if name.startswith("blocks.")]
    return max(head for head, _ in numbers) + 1, max(layer for _, layer in numbers) + 1


def drafted(weights: Weights, head: int, x: torch.Tensor) -> torch.Tensor:
    """The states, ready for lm_head."""
    for layer in range(counts(weights)[1]):
        name = f"blocks.{head}.layers.{layer}"
        x = x + F.silu(F.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"]))
    return x
