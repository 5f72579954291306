"""Remade: a checkpoint that is yet to be written, each of its tensors with a recipe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from speccli.checkpoint.header import DTYPE_BITS
from speccli.checkpoint.inspection import Inspection


class Copy(msgspec.Struct, frozen=True, tag="copy"):
    """The contents of a tensor as they are."""

    tensor: str


class Resize(msgspec.Struct, frozen=True, tag="resize"):
    """A tensor with rows of zeros at its end, or with its last rows cut off."""

    tensor: str


class Zeros(msgspec.Struct, frozen=True, tag="zeros"):
    """Nothing but zeros. `tensor` is the one that it stands beside."""

    tensor: str


class Fold(msgspec.Struct, frozen=True, tag="fold"):
    """The product of a matrix and a vector, plus another vector where one is named."""

    tensor: str
    vector: str
    plus: str | None = None


Recipe = Copy | Resize | Zeros | Fold


class Made(msgspec.Struct, frozen=True):
    dtype: str
    shape: tuple[int, ...]
    recipe: Recipe

    @property
    def size_bytes(self) -> int:
        count = DTYPE_BITS[self.dtype]
        for size in self.shape:
            count *= size
        return count // 8


class Remade(msgspec.Struct, frozen=True):
    """`reasons` tells people what is put right; without one the original serves."""

    config: dict[str, Any]
    tensors: dict[str, Made]
    reasons: tuple[str, ...] = ()

    def because(
        self, reason: str, config: dict[str, Any] | None = None, tensors: dict[str, Made] | None = None
    ) -> Remade:
        """This, with other or further config keys and tensors."""
        return Remade(self.config | (config or {}), self.tensors | (tensors or {}), (*self.reasons, reason))

    def renamed(self, rename: Callable[[str], str | None]) -> Remade:
        """Each tensor under its new name; None leaves it out."""
        pairs = ((rename(name), made) for name, made in self.tensors.items())
        return Remade(self.config, {name: made for name, made in pairs if name is not None}, self.reasons)


def as_it_is(checkpoint: Inspection) -> Remade:
    tensors = checkpoint.tensors or {}
    return Remade(checkpoint.config, {n: Made(t.dtype, t.shape, Copy(n)) for n, t in tensors.items()})
