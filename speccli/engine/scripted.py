"""An engine that replays written steps: for tests, for the documents, and for trying the view without a model.

>>> engine = ScriptedEngine([[Wrote("The sea", tokens=2, drafted=3, accepted=1), Wrote(" is wide.", tokens=3)]])
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from types import TracebackType
from typing import Self

import msgspec

from speccli.engine import FinishReason, Prompt, Request, Split, Step
from speccli.errors import EngineFailed


class Wrote(msgspec.Struct, frozen=True):
    """One step of an answer: its text and tokens, what was drafted for it and how much of that was accepted."""

    text: str
    tokens: int = 1
    drafted: int = 0
    accepted: int = 0
    finish_reason: FinishReason | None = None
    """None: the last step of an answer ends with "stop"."""
    texts: tuple[str, ...] = ()
    """Of each token; without them the text is shared out evenly."""
    split: Split | None = None
    """As of an engine that has a reasoning parser."""


class Refused(msgspec.Struct, frozen=True):
    """The engine refuses this request."""

    reason: str


class Dies(msgspec.Struct, frozen=True):
    """The engine dies at this point."""

    reason: str


Answer = Sequence[Wrote | Dies] | Refused


class ScriptedEngine:
    """Answers the requests in the order in which they come, one written answer each, `max_in_flight` at a time.

    `answers` is a list, or a function that writes the answer to a request. `clock` gives the time of each step.
    """

    def __init__(
        self,
        answers: Iterable[Answer] | Callable[[Request], Answer],
        max_in_flight: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        queue = None if callable(answers) else deque(answers)
        self._answer: Callable[[Request], Answer] = answers if callable(answers) else lambda _: _next(queue)
        self._max_in_flight = max_in_flight
        self._clock = clock
        self.aborted: list[str] = []
        self.closed = False

    @property
    def max_in_flight(self) -> int:
        return self._max_in_flight

    def generate(self, requests: Iterable[Request | None], max_in_flight: int | None = None) -> Iterator[Step]:
        waiting = iter(requests)
        most = max_in_flight or self._max_in_flight
        flying: deque[tuple[Request, Iterator[Step]]] = deque()
        try:
            while True:
                while len(flying) < most and (request := next(waiting, None)) is not None:
                    flying.append((request, self._steps(request)))
                if not flying:
                    return
                request, steps = flying.popleft()
                flying.append((request, steps))
                step = next(steps)
                if step.is_last:
                    flying.pop()
                yield step
        finally:
            self.aborted += [request.id for request, _ in flying]

    def measure(self, request: Request) -> Prompt | None:
        return Prompt(_num_prompt_tokens(request))

    def close(self) -> None:
        self.closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _steps(self, request: Request) -> Iterator[Step]:
        answer = self._answer(request)
        if isinstance(answer, Refused):
            yield Step(request_id=request.id, at_s=self._clock(), finish_reason="error", error=answer.reason)
            return
        num_prompt_tokens = _num_prompt_tokens(request)
        for number, wrote in enumerate(answer, 1):
            if isinstance(wrote, Dies):
                raise EngineFailed(f"the engine died:\n  {wrote.reason}")
            last: FinishReason | None = "stop" if number == len(answer) else None
            yield Step(
                request_id=request.id,
                text=wrote.text,
                split=wrote.split,
                token_ids=tuple(range(wrote.tokens)),
                num_draft_tokens=wrote.drafted,
                num_accepted_tokens=wrote.accepted,
                token_texts=(wrote.texts or _shares(wrote)) if request.wants_token_texts else (),
                num_prompt_tokens=num_prompt_tokens,
                at_s=self._clock(),
                finish_reason=wrote.finish_reason or last,
            )


def _next(queue: deque[Answer] | None) -> Answer:
    if not queue:
        return Refused("the script has no answer for this request")
    return queue.popleft()


def _num_prompt_tokens(request: Request) -> int:
    """Its tokens are words."""
    return len((request.prompt or "").split()) + sum(len(message.content.split()) for message in request.messages)


def _shares(wrote: Wrote) -> tuple[str, ...]:
    """The text in as many parts as there are tokens."""
    cuts = [len(wrote.text) * place // wrote.tokens for place in range(wrote.tokens + 1)]
    return tuple(wrote.text[start:end] for start, end in pairwise(cuts))
