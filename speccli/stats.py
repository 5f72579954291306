"""Acceptance: counts folded from steps, rates derived from the counts.

Names and definitions are vLLM's (`vllm/v1/spec_decode/metrics.py`): the mean acceptance length counts the bonus token,
per-position rates are unconditional.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from speccli.engine import Step


class Acceptance(msgspec.Struct, frozen=True):
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
        """Of all drafts, the share whose token at this position was accepted."""
        return tuple(count / self.num_drafts for count in self.num_accepted_tokens_per_pos)

    def after(self, step: Step) -> Acceptance:
        """These counts and one more step."""
        if not step.num_draft_tokens:
            return self
        longest = max(len(self.num_accepted_tokens_per_pos), step.num_draft_tokens)
        per_pos = self.num_accepted_tokens_per_pos + (0,) * (longest - len(self.num_accepted_tokens_per_pos))
        return Acceptance(
            num_drafts=self.num_drafts + 1,
            num_draft_tokens=self.num_draft_tokens + step.num_draft_tokens,
            num_accepted_tokens=self.num_accepted_tokens + step.num_accepted_tokens,
            num_accepted_tokens_per_pos=tuple(n + (i < step.num_accepted_tokens) for i, n in enumerate(per_pos)),
        )

    def to_dict(self) -> dict[str, object]:
        """The counts and the rates, as JSON records carry them."""
        return {
            **msgspec.to_builtins(self),
            "mean_acceptance_length": round(self.mean_acceptance_length, 4),
            "draft_acceptance_rate": round(self.draft_acceptance_rate, 4),
        }


def fold(steps: Iterable[Step]) -> Acceptance:
    """The acceptance of all these steps."""
    total = Acceptance()
    for step in steps:
        total = total.after(step)
    return total


class Timing(msgspec.Struct, frozen=True):
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
    def decode_tokens_per_s(self) -> float | None:
        """Tokens after the first step, over the time they took. Counted in tokens, never in chunks."""
        if self.first_s is None or self.last_s is None or self.last_s <= self.first_s:
            return None
        return (self.num_tokens - self.num_first_tokens) / (self.last_s - self.first_s)

    @property
    def tokens_per_s(self) -> float | None:
        """All tokens, over the time since the start."""
        if self.last_s is None or self.last_s <= self.started_s:
            return None
        return self.num_tokens / (self.last_s - self.started_s)
