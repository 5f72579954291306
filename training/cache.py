"""Keys and values of a batch of sequences that grow by one token a step, each at its own length."""

from __future__ import annotations

import torch

from training.target import Target

CHUNK_ROWS = 32
"""Rows that attend together, up to the length of their longest: kept in order of length, few of them are padded much."""


class Cache:
    def __init__(self, target: Target, rows: int, max_length: int) -> None:
        shape = (len(target.layers), rows, target.num_kv_heads, max_length, target.head_dim)
        self.keys, self.values = torch.zeros(shape), torch.zeros(shape)
        self.lengths = torch.zeros(rows, dtype=torch.long)
        self._chunks: list[tuple[slice, int, torch.Tensor]] = []

    def begin_step(self, rows: int) -> None:
        """Prepare the masks for the first `rows` rows."""
        self._chunks = []
        for start in range(0, rows, CHUNK_ROWS):
            chunk = slice(start, min(start + CHUNK_ROWS, rows))
            longest = int(self.lengths[chunk].max()) + 1
            is_beyond = torch.arange(longest) > self.lengths[chunk, None]
            self._chunks.append((chunk, longest, is_beyond[:, None, None, :]))

    def end_step(self, rows: int) -> None:
        self.lengths[:rows] += 1

    def attend(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Store a token's keys and values for each row, and let its queries see all that the row holds."""
        rows, keys, values = torch.arange(len(q)), self.keys[layer], self.values[layer]
        keys[rows, :, self.lengths[: len(q)]] = k
        values[rows, :, self.lengths[: len(q)]] = v
        grouped = q.view(len(q), keys.shape[1], -1, q.shape[-1])
        out = [
            _attended(grouped[chunk], keys[chunk, :, :longest], values[chunk, :, :longest], is_beyond)
            for chunk, longest, is_beyond in self._chunks
        ]
        return torch.cat(out).view_as(q)

    def reorder(self, order: list[int]) -> None:
        """Row i becomes what row order[i] was; rows after those are free."""
        index = torch.tensor(order, dtype=torch.long)
        longest = int(self.lengths[index].max()) if order else 0
        for held in (self.keys, self.values):
            for layer in held:
                layer[: len(order), :, :longest] = layer[index, :, :longest]
        self.lengths[: len(order)] = self.lengths[index]

    def clear(self, row: int) -> None:
        self.lengths[row] = 0


def _attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, is_beyond: torch.Tensor) -> torch.Tensor:
    scores = torch.matmul(q, k.transpose(-1, -2)).mul_(q.shape[-1] ** -0.5)
    return torch.matmul(scores.masked_fill_(is_beyond, float("-inf")).softmax(-1), v)
