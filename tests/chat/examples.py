"""Turns and steps to test with."""

from __future__ import annotations

from typing import Any

from speccli.answer import Answer
from speccli.chat.turn import Run, Turn, turn_of
from speccli.engine import Step
from speccli.profile import Sampling

NGRAM = Run("tiny", "ngram", 3)
PLAIN = Run("tiny", "none")


def step(*texts: str, at_s: float = 0.0, drafted: int = 0, accepted: int = 0, **more: Any) -> Step:
    """A step of one token a text; its ids count from 10."""
    given: dict[str, Any] = {
        "text": "".join(texts), "token_ids": tuple(range(10, 10 + len(texts))), "token_texts": texts, "at_s": at_s,
        "num_draft_tokens": drafted, "num_accepted_tokens": accepted, "num_prompt_tokens": 7,
    }  # fmt: skip
    return Step(request_id="chat", **{**given, **more})


def turn(
    *steps: Step,
    user: str = "Describe the sea.",
    run: Run = NGRAM,
    started_s: float = 10.0,
    sampling: Sampling | None = None,
) -> Turn:
    answer = Answer(started_s)
    for one in steps:
        answer.add(one)
    return turn_of(user, answer.text, "", run, answer, steps, sampling)


SEA = (
    step("The", at_s=10.5),
    step(" sea", " is", " wide", at_s=11.0, drafted=3, accepted=2),
    step(".", at_s=11.5, drafted=3, accepted=0, finish_reason="stop"),
)
