"""Comparison: the same question answered twice, and where the answers part."""

from __future__ import annotations

import msgspec

from speccli.chat.turn import Turn


class Comparison(msgspec.Struct, frozen=True):
    """Two turns with one question."""

    first: Turn
    second: Turn
    is_sampled: bool = False
    """Whether chance has a part in it, so that the texts may differ for no other reason."""

    @property
    def first_difference(self) -> int | None:
        """The place of the first token that differs, counted from 0. None: none does, as far as both go."""
        ids = [[token.id for token in turn.tokens] for turn in (self.first, self.second)]
        for place, (one, other) in enumerate(zip(*ids, strict=False)):
            if one != other:
                return place
        return None

    @property
    def num_compared(self) -> int:
        return min(len(self.first.tokens), len(self.second.tokens))

    @property
    def speedup(self) -> float | None:
        """The first's tokens/s over the second's."""
        one, other = (turn.timing.decode_tokens_per_s for turn in (self.first, self.second))
        return one / other if one and other else None
