"""Sums over turns: what a session did, and how fast, with speculation and without."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import msgspec

from speccli.chat.turn import Run, Turn
from speccli.stats import Acceptance


class Totals(msgspec.Struct, frozen=True):
    """Of several turns."""

    num_turns: int = 0
    num_prompt_tokens: int = 0
    num_tokens: int = 0
    num_steps: int = 0
    num_decode_tokens: int = 0
    """Tokens after each answer's first step."""
    decode_s: float = 0.0
    acceptance: Acceptance = Acceptance()

    @property
    def decode_tokens_per_s(self) -> float | None:
        return self.num_decode_tokens / self.decode_s if self.decode_s else None

    def and_turn(self, turn: Turn) -> Totals:
        timing = turn.timing
        return Totals(
            self.num_turns + 1,
            self.num_prompt_tokens + turn.num_prompt_tokens,
            self.num_tokens + timing.num_tokens,
            self.num_steps + turn.num_steps,
            self.num_decode_tokens + timing.num_decode_tokens,
            self.decode_s + timing.decode_s,
            self.acceptance.plus(turn.acceptance),
        )


def total(turns: Iterable[Turn]) -> Totals:
    """The sum of these turns."""
    sums = Totals()
    for turn in turns:
        sums = sums.and_turn(turn)
    return sums


def tokens_per_step(acceptance: Acceptance, num_steps: int) -> tuple[int, ...]:
    """How many steps gave 1, 2, … tokens. A draft gives its accepted tokens and one of the target's own."""
    reached = (acceptance.num_drafts, *acceptance.num_accepted_tokens_per_pos, 0)
    exactly = [here - further for here, further in pairwise(reached)]
    exactly[0] += num_steps - acceptance.num_drafts
    return tuple(exactly)


def plain_tokens_per_s(turns: Iterable[Turn], run: Run) -> float | None:
    """How fast the same target was without speculation, where that was measured."""
    return total(turn for turn in turns if turn.run == Run(run.target, "none")).decode_tokens_per_s
