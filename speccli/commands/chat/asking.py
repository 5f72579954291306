"""One question to the engine, and what came of it. Ctrl-C ends the answer and keeps what came."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Sequence
from contextlib import closing
from types import FrameType, TracebackType
from typing import Self

import msgspec

from speccli.answer import Answer
from speccli.chat.context import Fit, fit, room_for_answer
from speccli.chat.conversation import Conversation
from speccli.chat.reasoning import Part, Splitter
from speccli.chat.settings import Display
from speccli.chat.turn import Run, Turn, turn_of
from speccli.engine import Engine, Request, Step
from speccli.plan import Plan
from speccli.profile import Sampling
from speccli.view import View


class Asked(msgspec.Struct, frozen=True):
    """What came of a question. `error` is the engine's reason for refusing it."""

    answer: Answer
    turn: Turn
    error: str | None = None
    num_interrupts: int = 0
    """How often Ctrl-C was pressed."""


class Question(msgspec.Struct, frozen=True):
    """A message, and all that decides what it is answered with."""

    text: str
    conversation: Conversation
    sampling: Sampling
    plan: Plan

    @property
    def request(self) -> Request:
        return Request(
            id="chat",
            messages=self.conversation.messages(self.text),
            sampling=self.sampling,
            wants_token_texts=True,
        )

    @property
    def run(self) -> Run:
        return run_of(self.plan)

    def fit(self, engine: Engine) -> Fit:
        """Whether the message fits the context window."""
        limit = self.plan.max_model_len
        return fit(
            self.conversation,
            lambda shorter: _num_prompt_tokens(engine, msgspec.structs.replace(self, conversation=shorter)),
            limit,
            room_for_answer(limit, self.sampling.max_tokens),
        )


def run_of(plan: Plan) -> Run:
    pairing = plan.pairing
    return Run(pairing.target, pairing.method, pairing.num_speculative_tokens if pairing.is_speculative else 0)


def ask(engine: Engine, question: Question, view: View, display: Display, shows: bool = True) -> Asked:
    """Get the answer, and show it while it comes."""
    prompt = engine.measure(question.request)
    answer, steps, parts = Answer(), list[Step](), list[Part]()
    splitter = Splitter(prompt is not None and prompt.opens_reasoning)
    showing = (
        view.answering(answer, display, question.plan.max_model_len) if shows else contextlib.nullcontext(_Nowhere())
    )
    with Interrupts() as interrupts, closing(engine.generate([question.request])) as generated, showing as stream:  # type: ignore[type-var]
        try:
            for step in generated:
                steps.append(step)
                answer.add(step)
                parts += (new := splitter.add(step))
                stream.show(new)
        except KeyboardInterrupt:
            answer.finish_reason = None
            interrupts.count = max(1, interrupts.count)
        parts += (rest := splitter.finish())
        stream.show(rest)
    return Asked(answer, _turn(question, answer, steps, parts), answer.error, interrupts.count)


def _turn(question: Question, answer: Answer, steps: Sequence[Step], parts: Sequence[Part]) -> Turn:
    return turn_of(
        user=question.text,
        text="".join(part.text for part in parts if part.kind == "answer"),
        reasoning="".join(part.text for part in parts if part.kind == "reasoning").strip(),
        run=question.run,
        answer=answer,
        steps=steps,
        sampling=question.sampling,
    )


def _num_prompt_tokens(engine: Engine, question: Question) -> int:
    """0 where the engine refuses it for another reason: then that is told."""
    prompt = engine.measure(question.request)
    return 0 if prompt is None else prompt.num_tokens


class Interrupts:
    """The first Ctrl-C raises KeyboardInterrupt; those that follow are counted, and do not disturb the tidying up."""

    def __init__(self) -> None:
        self.count = 0
        self._before: object = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)  # type: ignore[arg-type]

    def _handle(self, _: int, __: FrameType | None) -> None:
        self.count += 1
        if self.count == 1:
            raise KeyboardInterrupt


class _Nowhere:
    """Where an answer goes that nobody watches."""

    def show(self, parts: Sequence[Part]) -> None:
        """Nothing is shown."""
