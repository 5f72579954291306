"""Acceptance: counts folded from steps, rates derived from the counts.

Names and definitions are vLLM's (`vllm/v1/spec_decode/metrics.py`): the mean acceptance length counts the bonus token,
per-position rates are unconditional.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from itertools import zip_longest

import msgspec

from speccli.engine import Merged, Step


class Acceptance(msgspec.Struct, frozen=True, gc=False):
    """What speculation did. A draft is one verification by the target of at least one proposed token."""

    num_drafts: int = 0
    num_draft_tokens: int = 0
    num_accepted_tokens: int = 0
    num_accepted_tokens_per_pos: tuple[int, ...] = ()

    @property
    def mean_acceptance_length(self) -> float:
        """Tokens per verification, the target's own one included: 1 + accepted / drafts."""
        return 1 + self.num_accepted_tokens / self.num_drafts if self.num_drafts else 1.0

    @property
    def draft_acceptance_rate(self) -> float:
        """Accepted / drafted tokens."""
        return self.num_accepted_tokens / self.num_draft_tokens if self.num_draft_tokens else 0.0

    @property
    def acceptance_rate_per_pos(self) -> tuple[float, ...]:
        """Of all drafts, the share whose token at this position was accepted; empty without drafts."""
        counts = self.num_accepted_tokens_per_pos if self.num_drafts else ()
        return tuple(count / self.num_drafts for count in counts)

    def after(self, step: Step) -> Acceptance:
        """These counts and one more step."""
        if not step.num_draft_tokens:
            return self
        if step.merged is not None:
            return self.plus(_merged(step, step.merged))
        longest = max(len(self.num_accepted_tokens_per_pos), step.num_draft_tokens)
        per_pos = self.num_accepted_tokens_per_pos + (0,) * (longest - len(self.num_accepted_tokens_per_pos))
        return Acceptance(
            num_drafts=self.num_drafts + 1,
            num_draft_tokens=self.num_draft_tokens + step.num_draft_tokens,
            num_accepted_tokens=self.num_accepted_tokens + step.num_accepted_tokens,
            num_accepted_tokens_per_pos=tuple(
                [n + (i < step.num_accepted_tokens) for i, n in enumerate(per_pos)]  # a list is faster here
            ),
        )

    def plus(self, other: Acceptance) -> Acceptance:
        """The counts of both."""
        if not other.num_drafts:
            return self
        pairs = zip_longest(self.num_accepted_tokens_per_pos, other.num_accepted_tokens_per_pos, fillvalue=0)
        return Acceptance(
            num_drafts=self.num_drafts + other.num_drafts,
            num_draft_tokens=self.num_draft_tokens + other.num_draft_tokens,
            num_accepted_tokens=self.num_accepted_tokens + other.num_accepted_tokens,
            num_accepted_tokens_per_pos=tuple([ours + theirs for ours, theirs in pairs]),
        )

    def report(self) -> Speculation:
        """The counts and the rates, as JSON records carry them."""
        return Speculation(
            num_drafts=self.num_drafts,
            num_draft_tokens=self.num_draft_tokens,
            num_accepted_tokens=self.num_accepted_tokens,
            num_accepted_tokens_per_pos=self.num_accepted_tokens_per_pos,
            mean_acceptance_length=round(self.mean_acceptance_length, 4),
            draft_acceptance_rate=round(self.draft_acceptance_rate, 4),
        )

    def to_dict(self) -> dict[str, object]:
        """The same as a dictionary."""
        return msgspec.structs.asdict(self.report())


class Speculation(msgspec.Struct, frozen=True, gc=False):
    """What speculation did, as JSON records carry it: the counts, and the rates that follow from them."""

    num_drafts: int
    num_draft_tokens: int
    num_accepted_tokens: int
    num_accepted_tokens_per_pos: tuple[int, ...]
    """Of all drafts, how many had their 1st, 2nd, … token accepted."""
    mean_acceptance_length: float
    """Tokens per draft, the target's own one included: 1 + accepted / drafts."""
    draft_acceptance_rate: float
    """Accepted / drafted tokens."""


def _merged(step: Step, merged: Merged) -> Acceptance:
    return Acceptance(
        merged.num_drafts, step.num_draft_tokens, step.num_accepted_tokens, merged.num_accepted_tokens_per_pos
    )


def total(acceptances: Iterable[Acceptance]) -> Acceptance:
    """The counts of all of them."""
    summed = Acceptance()
    for one in acceptances:
        summed = summed.plus(one)
    return summed


def fold(steps: Iterable[Step]) -> Acceptance:
    """The acceptance of all these steps."""
    folded = Acceptance()
    for step in steps:
        folded = folded.after(step)
    return folded


class Timing(msgspec.Struct, frozen=True, gc=False):
    """When the tokens of one answer, or of many at once, came. All times by `time.monotonic()`, in seconds."""

    started_s: float
    first_s: float | None = None
    last_s: float | None = None
    num_tokens: int = 0
    num_first_tokens: int = 0

    def after(self, step: Step) -> Timing:
        if not step.token_ids:
            return self
        first = step.at_s if self.first_s is None else self.first_s
        return Timing(
            started_s=self.started_s,
            first_s=first,
            last_s=step.at_s,
            num_tokens=self.num_tokens + len(step.token_ids),
            num_first_tokens=self.num_first_tokens or len(step.token_ids),
        )

    @property
    def time_to_first_token_s(self) -> float | None:
        return None if self.first_s is None else self.first_s - self.started_s

    @property
    def num_decode_tokens(self) -> int:
        """Tokens after the first step."""
        return self.num_tokens - self.num_first_tokens

    @property
    def decode_s(self) -> float:
        """From the first step to the last."""
        return 0.0 if self.first_s is None or self.last_s is None else self.last_s - self.first_s

    @property
    def decode_tokens_per_s(self) -> float | None:
        """Tokens after the first step, over the time they took. Counted in tokens, never in chunks."""
        return self.num_decode_tokens / self.decode_s if self.decode_s > 0 else None


class Latencies:
    """Percentiles of any number of durations, in little memory: right to within one percent."""

    STEPS_PER_E_FOLD = 50
    PENDING = 4096

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._pending: list[float] = []

    def add(self, seconds: float) -> None:
        self._pending.append(seconds)
        if len(self._pending) >= self.PENDING:
            self._fold()

    def percentile(self, share: float) -> float | None:
        """The duration that this share of them did not exceed."""
        self._fold()
        wanted = share * self._counts.total()
        reached = 0
        for step in sorted(self._counts):
            reached += self._counts[step]
            if reached >= wanted:
                return round(math.exp(step / self.STEPS_PER_E_FOLD), 4)
        return None

    def _fold(self) -> None:
        self._counts.update(round(math.log(max(seconds, 1e-6)) * self.STEPS_PER_E_FOLD) for seconds in self._pending)
        self._pending.clear()
