"""Job: entries become requests, steps become records, whichever engine and whatever the records go to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Literal

from speccli import jsonl
from speccli.answer import Answer
from speccli.engine import Engine, Request, Step
from speccli.progress import Progress, Tally

ORDERED_WINDOW = 4
"""With --ordered, so many times the engine's requests may be unwritten: finished, but behind one that is not."""

Put = Callable[[bytes, bool], None]
"""Takes a record, and whether it is of a failure."""


class Job:
    """Turns entries into requests, and steps into records."""

    def __init__(self, put: Put, tally: Tally, form: Literal["auto", "speccli", "openai"], model: str) -> None:
        self._put = put
        self._tally = tally
        self._form = form
        self._model = model
        self._flying: dict[str, tuple[_Waiting, Answer]] = {}
        self._order: _InOrder | None = None

    def first_request(self, entries: Iterator[jsonl.Entry]) -> jsonl.Entry | None:
        """The first entry that needs an engine. Bad lines before it get their record."""
        for entry in entries:
            if entry.request is not None:
                return entry
            self._fail(_Waiting(entry, 0, []), _problem_of(entry))
        return None

    def answer(
        self,
        engine: Engine,
        entries: Iterable[jsonl.Entry],
        progress: Progress,
        ordered: bool = False,
        max_in_flight: int | None = None,
    ) -> None:
        """Answer every entry, writing each record as it is finished, or in the order of the input."""
        most = max_in_flight or engine.max_in_flight
        self._order = _InOrder(self._put, ORDERED_WINDOW * most) if ordered else None
        with closing(engine.generate(self._requests(entries), max_in_flight)) as steps:  # type: ignore[type-var]
            for step in steps:
                self._take(step)
                progress.update(time.monotonic())

    def _requests(self, entries: Iterable[jsonl.Entry]) -> Iterator[Request | None]:
        """What the engine pulls, as slots free up. Bad lines get their record on the way."""
        for entry in entries:
            while self._order is not None and self._order.is_full:
                yield None
            waiting = _Waiting(entry, 0 if self._order is None else self._order.take_place(), [])
            if entry.request is None:
                self._fail(waiting, _problem_of(entry))
                continue
            for request in entry.requests():
                answer = Answer(time.monotonic())
                waiting.answers.append(answer)
                self._flying[request.id] = (waiting, answer)
                yield request

    def _take(self, step: Step) -> None:
        waiting, answer = self._flying[step.request_id]
        answer.add(step)
        self._tally.add(step)
        if not step.is_last:
            return
        del self._flying[step.request_id]
        waiting.num_ended += 1
        if waiting.num_ended == waiting.entry.n:
            self._finish(waiting)

    def _finish(self, waiting: _Waiting) -> None:
        entry = waiting.entry
        refusals = [answer.error for answer in waiting.answers if answer.error is not None]
        if refusals:
            source = entry.source
            said = "\n".join(map(jsonl.printable, refusals[0].splitlines()))
            place = f"{jsonl.printable(source.file)}:{source.line}"
            self._fail(waiting, jsonl.Problem("refused", f"{place}: {said}"))
            return
        self._write(waiting, jsonl.record(entry, waiting.answers, self._form_of(entry), self._model), False)
        self._tally.succeed(waiting.answers)

    def _fail(self, waiting: _Waiting, problem: jsonl.Problem) -> None:
        self._write(waiting, jsonl.failure(waiting.entry, problem, self._form_of(waiting.entry)), True)
        self._tally.fail(problem.message)

    def _write(self, waiting: _Waiting, record: bytes, is_failure: bool) -> None:
        if self._order is None:
            self._put(record, is_failure)
        else:
            self._order.put(waiting.place, record, is_failure)

    def _form_of(self, entry: jsonl.Entry) -> jsonl.Form:
        return entry.form if self._form == "auto" else self._form


class _Waiting:
    """A line whose answers are being generated."""

    __slots__ = ("answers", "entry", "num_ended", "place")

    def __init__(self, entry: jsonl.Entry, place: int, answers: list[Answer]) -> None:
        self.entry = entry
        self.place = place
        self.answers = answers
        self.num_ended = 0


class _InOrder:
    """Holds back records until those before them are written: at most so many."""

    def __init__(self, put: Put, most: int) -> None:
        self._put = put
        self._most = most
        self._held: dict[int, tuple[bytes, bool]] = {}
        self._num_taken = 0
        self._num_written = 0

    @property
    def is_full(self) -> bool:
        return self._num_taken - self._num_written >= self._most

    def take_place(self) -> int:
        self._num_taken += 1
        return self._num_taken - 1

    def put(self, place: int, record: bytes, is_failure: bool) -> None:
        self._held[place] = (record, is_failure)
        while self._num_written in self._held:
            self._put(*self._held.pop(self._num_written))
            self._num_written += 1


def _problem_of(entry: jsonl.Entry) -> jsonl.Problem:
    return entry.problem or jsonl.Problem("invalid_line", "no request")
