"""Turn: one question, its answer, and what speculation did for it; folded from the engine's steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from speccli.answer import Answer
from speccli.engine import FinishReason, Step
from speccli.profile import Sampling
from speccli.stats import Acceptance, Timing

Origin = Literal["draft", "target"]
"""Whether the speculator proposed the token and the target accepted it, or the target chose it itself."""


class Token(msgspec.Struct, frozen=True, array_like=True):
    """One token of an answer. `text` is empty where a character needs the next token, too, and for an end token."""

    id: int
    text: str
    origin: Origin


class Run(msgspec.Struct, frozen=True):
    """What answered."""

    target: str
    method: str
    num_speculative_tokens: int = 0

    def __str__(self) -> str:
        if self.method == "none":
            return f"{self.target} · plain decoding"
        return f"{self.target} · {self.method}, k={self.num_speculative_tokens}"


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """A question and its answer. `finish_reason` is None where the user stopped the answer."""

    user: str
    answer: str
    reasoning: str = ""
    finish_reason: FinishReason | None = None
    run: Run
    sampling: Sampling | None = None
    """What the question was asked with. None: not known, as in conversations saved without it."""
    num_prompt_tokens: int = 0
    num_steps: int = 0
    """Steps of the engine that brought tokens."""
    acceptance: Acceptance = Acceptance()
    timing: Timing = Timing(0.0)
    """Counted from the moment when the question was asked."""
    tokens: tuple[Token, ...] = ()

    @property
    def num_tokens(self) -> int:
        """Prompt and answer: what the turn takes of the context."""
        return self.num_prompt_tokens + self.timing.num_tokens


class Piece(msgspec.Struct, frozen=True):
    """Text that can be shown, and the tokens that it took: several where they share one character."""

    text: str
    origins: tuple[Origin, ...]

    @property
    def origin(self) -> Origin | Literal["both"]:
        return self.origins[0] if len(set(self.origins)) == 1 else "both"


def tokens_of(steps: Sequence[Step]) -> tuple[Token, ...]:
    """Of each step's tokens the first `num_accepted_tokens` were drafted. Text that a stop string cut off is cut here, too."""
    left = sum(len(step.text) for step in steps)
    tokens: list[Token] = []
    for step in steps:
        for place, (token_id, text) in enumerate(zip(step.token_ids, _texts(step), strict=False)):
            origin: Origin = "draft" if place < step.num_accepted_tokens else "target"
            tokens.append(Token(token_id, text[:left], origin))
            left = max(0, left - len(text))
    return tuple(tokens)


def _texts(step: Step) -> Sequence[str]:
    return (*step.token_texts, *[""] * (len(step.token_ids) - len(step.token_texts)))


def pieces(tokens: Sequence[Token]) -> list[Piece]:
    """The tokens as text to show."""
    made: list[Piece] = []
    waiting: list[Origin] = []
    for token in tokens:
        waiting.append(token.origin)
        if token.text:
            made.append(Piece(token.text, tuple(waiting)))
            waiting = []
    return made


def relative(timing: Timing) -> Timing:
    """The same times, counted from the start."""
    start = timing.started_s
    return Timing(
        0.0,
        None if timing.first_s is None else timing.first_s - start,
        None if timing.last_s is None else timing.last_s - start,
        timing.num_tokens,
        timing.num_first_tokens,
    )


def turn_of(
    user: str,
    text: str,
    reasoning: str,
    run: Run,
    answer: Answer,
    steps: Sequence[Step],
    sampling: Sampling | None = None,
) -> Turn:
    """The turn that these steps, and the answer folded from them, make. `text` is the answer's without its reasoning."""
    return Turn(
        user=user,
        answer=text,
        reasoning=reasoning,
        finish_reason=answer.finish_reason,
        run=run,
        sampling=sampling,
        num_prompt_tokens=answer.num_prompt_tokens,
        num_steps=sum(bool(step.token_ids) for step in steps),
        acceptance=answer.acceptance,
        timing=relative(answer.timing),
        tokens=tokens_of(steps),
    )
