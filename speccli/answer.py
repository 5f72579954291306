"""Answer: what one request has got so far, folded from its steps."""

from __future__ import annotations

import time

from speccli.engine import FinishReason, Step
from speccli.stats import Acceptance, Timing


class Answer:
    """Grows by `add`. `finish_reason` is set by the last step, and `error` where the engine refused the request."""

    def __init__(self, started_s: float | None = None) -> None:
        self.acceptance = Acceptance()
        self.timing = Timing(time.monotonic() if started_s is None else started_s)
        self.num_prompt_tokens = 0
        self.finish_reason: FinishReason | None = None
        self.error: str | None = None
        self._parts: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self._parts)

    def add(self, step: Step) -> None:
        self._parts.append(step.text)
        self.acceptance = self.acceptance.after(step)
        self.timing = self.timing.after(step)
        self.num_prompt_tokens = step.num_prompt_tokens or self.num_prompt_tokens
        self.finish_reason = step.finish_reason
        self.error = step.error

    def to_dict(self) -> dict[str, object]:
        """The answer as JSON records carry it."""
        if self.error is not None:
            return {"error": self.error}
        timing = self.timing
        return {
            "text": self.text,
            "finish_reason": self.finish_reason,
            "usage": {"prompt_tokens": self.num_prompt_tokens, "completion_tokens": timing.num_tokens},
            "timings": {
                "time_to_first_token_s": _rounded(timing.time_to_first_token_s),
                "total_s": _rounded(None if timing.last_s is None else timing.last_s - timing.started_s),
                "decode_tokens_per_s": _rounded(timing.decode_tokens_per_s),
            },
            "speculation": self.acceptance.to_dict(),
        }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
