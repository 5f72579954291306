"""Answer: what one request has got so far, folded from its steps."""

from __future__ import annotations

import time

import msgspec

from speccli.engine import FinishReason, Step, TokenLogprob
from speccli.stats import Acceptance, Timing


class Usage(msgspec.Struct, frozen=True, gc=False):
    """Tokens in and out."""

    prompt_tokens: int
    completion_tokens: int


class Timings(msgspec.Struct, frozen=True, gc=False):
    """How long an answer took, from when the engine got the request: in a batch that includes waiting for a slot."""

    time_to_first_token_s: float | None
    total_s: float | None
    decode_tokens_per_s: float | None
    """Tokens after the first step, over the time that they took."""


NOTHING = Acceptance()


class Answer:
    """Grows by `add`. `finish_reason` is set by the last step, and `error` where the engine refused the request."""

    def __init__(self, started_s: float | None = None) -> None:
        self.acceptance = NOTHING
        self.timing = Timing(time.monotonic() if started_s is None else started_s)
        self.num_prompt_tokens = 0
        self.is_truncated = False
        self.finish_reason: FinishReason | None = None
        self.error: str | None = None
        self.logprobs: list[TokenLogprob] = []
        self._parts: list[str] = []
        self._reasoning: list[str] = []

    @property
    def text(self) -> str:
        """Without the reasoning, where the engine tells that apart."""
        return "".join(self._parts)

    @property
    def reasoning(self) -> str:
        return "".join(self._reasoning)

    @property
    def usage(self) -> Usage:
        return Usage(self.num_prompt_tokens, self.timing.num_tokens)

    @property
    def timings(self) -> Timings:
        timing = self.timing
        return Timings(
            time_to_first_token_s=_rounded(timing.time_to_first_token_s),
            total_s=_rounded(None if timing.last_s is None else timing.last_s - timing.started_s),
            decode_tokens_per_s=_rounded(timing.decode_tokens_per_s),
        )

    def add(self, step: Step) -> None:
        if step.split is None:
            self._parts.append(step.text)
        else:
            self._parts.append(step.split.answer)
            self._reasoning.append(step.split.reasoning)
        self.acceptance = self.acceptance.after(step)
        self.timing = self.timing.after(step)
        self.num_prompt_tokens = step.num_prompt_tokens or self.num_prompt_tokens
        self.is_truncated = step.is_truncated or self.is_truncated
        self.logprobs += step.logprobs
        self.finish_reason = step.finish_reason
        self.error = step.error

    def to_dict(self) -> dict[str, object]:
        """The answer as one JSON object."""
        if self.error is not None:
            return {"error": self.error}
        return {
            "text": self.text,
            "finish_reason": self.finish_reason,
            "usage": msgspec.to_builtins(self.usage),
            "timings": msgspec.to_builtins(self.timings),
            "speculation": self.acceptance.to_dict(),
        }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
