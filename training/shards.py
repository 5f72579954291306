"""Shards: files of finished conversations with the hidden states of every token. Written whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class Record:
    """A finished conversation. The last token has no states: the model never saw it."""

    index: int
    category: str
    tokens: torch.Tensor
    roles: torch.Tensor
    states: torch.Tensor
    """float16, [tokens, 4, hidden]; the last row is zero."""
    log_normalisers: torch.Tensor
    """Of the logits after each token, which tell what part of the probability the draft vocabulary holds."""


def write(folder: Path, name: str, records: list[Record]) -> None:
    from safetensors.torch import save_file

    tensors = {
        field: torch.cat([getattr(record, field) for record in records])
        for field in ("tokens", "roles", "states", "log_normalisers")
    }
    about = [{"index": record.index, "category": record.category, "length": len(record.tokens)} for record in records]
    partial = folder / f".{name}.partial"
    save_file(tensors, partial, {"conversations": json.dumps(about)})
    partial.replace(folder / f"{name}.safetensors")


def found(folder: Path, split: str) -> list[Path]:
    return sorted(folder.glob(f"{split}-*.safetensors"))


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a conversation lies."""

    file: Path
    start: int
    length: int
    index: int
    category: str


def entries(file: Path) -> list[Entry]:
    start, result = 0, []
    with opened(file) as shard:
        about = json.loads(shard.metadata()["conversations"])
    for each in about:
        result.append(Entry(file, start, each["length"], each["index"], each["category"]))
        start += each["length"]
    return result


def all_entries(folder: Path, split: str) -> list[Entry]:
    return [entry for file in found(folder, split) for entry in entries(file)]


def required(folder: Path, split: str) -> list[Entry]:
    """The conversations of a split. There has to be one."""
    if not (some := all_entries(folder, split)):
        raise SystemExit(f"{folder} holds no {split} shards: `python -m training.generate --data {folder}` makes them")
    return some


def opened(file: Path) -> Any:
    from safetensors import safe_open

    return safe_open(file, framework="pt")


def read(wanted: list[Entry], fields: tuple[str, ...]) -> Iterator[dict[str, torch.Tensor]]:
    """The named tensors of each conversation, in the order given."""
    for entry in wanted:
        with opened(entry.file) as shard:
            span = slice(entry.start, entry.start + entry.length)
            yield {field: shard.get_slice(field)[span] for field in fields}
