"""Batches of whole conversations, padded, in an order that the seed and the pass alone decide."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from training import shards
from training.shards import Entry

WINDOW = 64
"""Conversations that are sorted by length together: those of a batch differ little, and batches come in random order."""

FIELDS = ("tokens", "roles", "states", "log_normalisers")


@dataclass(frozen=True, slots=True)
class Batch:
    """All of [conversations, tokens, ...]; padding has the role 0, as forced tokens have."""

    tokens: torch.Tensor
    roles: torch.Tensor
    states: torch.Tensor
    log_normalisers: torch.Tensor

    def is_wanted(self, roles: tuple[int, ...], ahead: int) -> torch.Tensor:
        """Of each place, whether the `ahead` tokens from the second next on belong to one turn of these roles.

        They are what a draft from this place is compared with: the next token is known to it, those after are not.
        """
        wanted = torch.zeros_like(self.roles, dtype=torch.bool)
        for role in roles:
            same = self.roles == role
            held = same[:, 2 : same.shape[1] - ahead + 1].clone()
            for i in range(1, ahead):
                held &= same[:, 2 + i : 2 + i + held.shape[1]]
            wanted[:, : held.shape[1]] |= held
        return wanted


def order(entries: list[Entry], seed: int, tokens: int) -> list[list[Entry]]:
    """The batches of a pass: each at most `tokens` long with its padding, or a single conversation."""
    rng = random.Random(seed)
    shuffled = rng.sample(entries, len(entries))
    batches: list[list[Entry]] = []
    for start in range(0, len(shuffled), WINDOW):
        batches += _packed(sorted(shuffled[start : start + WINDOW], key=lambda entry: entry.length), tokens)
    rng.shuffle(batches)
    return batches


def _packed(entries: list[Entry], tokens: int) -> Iterator[list[Entry]]:
    batch: list[Entry] = []
    for entry in entries:
        if batch and entry.length * (len(batch) + 1) > tokens:
            yield batch
            batch = []
        batch.append(entry)
    if batch:
        yield batch


def load(entries: list[Entry]) -> Batch:
    read = list(shards.read(entries, FIELDS))
    padded = {
        field: torch.nn.utils.rnn.pad_sequence([each[field] for each in read], batch_first=True) for field in FIELDS
    }
    return Batch(
        tokens=padded["tokens"].long(),
        roles=padded["roles"],
        states=padded["states"].float(),
        log_normalisers=padded["log_normalisers"],
    )
