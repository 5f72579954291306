"""Measures cells on a running engine, which it knows only by the seam."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing

import msgspec

from speccli.answer import Answer
from speccli.bench.cells import Cell, CellResult, Figures, Percentiles
from speccli.bench.prompts import POOLED, Prompt
from speccli.engine import Engine, Request, Step
from speccli.errors import UsageError
from speccli.stats import total

WARM_UP_TOKENS = 24

ROUNDS = 2
"""In a batch, a category's prompts are repeated until they are this many times its size, so that it is full for most of
the time."""


class Trace:
    """One request under way: its answer, its tokens, and when each step came."""

    def __init__(self, prompt: Prompt, started_s: float | None = None) -> None:
        self.prompt = prompt
        self.answer = Answer(started_s)
        self._steps: list[Step] = []

    def add(self, step: Step) -> None:
        if step.error is not None:
            raise UsageError(
                f"prompt {self.prompt.id} was refused: {step.error}", "leave that prompt out, or change the setting"
            )
        self.answer.add(step)
        if step.token_ids:
            self._steps.append(step)

    @property
    def token_ids(self) -> tuple[int, ...]:
        return tuple(token for step in self._steps for token in step.token_ids)

    @property
    def pauses_s(self) -> list[float]:
        return [after.at_s - before.at_s for before, after in itertools.pairwise(self._steps)]


def warm_up(engine: Engine, prompts: Sequence[Prompt], batch_size: int) -> None:
    """A short run that is not measured: what an engine does only the first time is done in it."""
    first = [next(members) for _, members in itertools.groupby(prompts, lambda prompt: prompt.category)]
    _run(engine, _repeated([_shortened(prompt) for prompt in first], batch_size), batch_size)


def measure(engine: Engine, prompts: Sequence[Prompt], cell: Cell) -> CellResult:
    """Every category, one after the other, with `cell.batch_size` requests in flight."""
    started = time.monotonic()
    enough = ROUNDS * cell.batch_size if cell.batch_size > 1 else 1
    traces = {
        category: _run(engine, _repeated(list(members), enough), cell.batch_size)
        for category, members in itertools.groupby(prompts, lambda prompt: prompt.category)
    }
    everything = list(itertools.chain.from_iterable(traces.values()))
    return CellResult(
        cell,
        took_s=round(time.monotonic() - started, 3),
        figures={category: figures(some) for category, some in {POOLED: everything, **traces}.items()},
        token_ids=_greedy_answers(everything) if cell.repeat == 1 else {},
    )


def figures(traces: Sequence[Trace]) -> Figures:
    timings = [trace.answer.timing for trace in traces]
    firsts = [timing.time_to_first_token_s for timing in timings]
    grown_s = busy_s((one.first_s, one.last_s) for one in timings if one.first_s is not None and one.last_s is not None)
    num_grown = sum(timing.num_decode_tokens for timing in timings)
    return Figures(
        num_requests=len(traces),
        num_tokens=sum(timing.num_tokens for timing in timings),
        decode_tokens_per_s=round(num_grown / grown_s, 4) if grown_s else None,
        time_to_first_token_s=percentiles(first for first in firsts if first is not None),
        inter_token_latency_s=percentiles(pause for trace in traces for pause in trace.pauses_s),
        acceptance=total(trace.answer.acceptance for trace in traces),
    )


def busy_s(spans: Iterable[tuple[float, float]]) -> float:
    """How long at least one of the spans lasted."""
    total, until = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total


def percentiles(values: Iterable[float]) -> Percentiles | None:
    """With linear interpolation between the two nearest values, as numpy has it."""
    ordered = sorted(values)
    if not ordered:
        return None
    return Percentiles(*(round(_percentile(ordered, share), 6) for share in (0.5, 0.9, 0.99)))


def _percentile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def _run(engine: Engine, prompts: Sequence[Prompt], batch_size: int) -> list[Trace]:
    traces: list[Trace] = []

    def requests() -> Iterator[Request]:
        for number, prompt in enumerate(prompts):
            traces.append(Trace(prompt))  # its time begins when the engine takes it
            yield msgspec.structs.replace(prompt.request, id=str(number))

    with closing(engine.generate(requests(), max_in_flight=batch_size)) as steps:  # type: ignore[type-var]
        for step in steps:
            traces[int(step.request_id)].add(step)
    return traces


def _repeated(prompts: Sequence[Prompt], at_least: int) -> list[Prompt]:
    """All the prompts, as often as it takes: each counts as much as the others."""
    return list(prompts) * max(1, -(-at_least // len(prompts)))


def _shortened(prompt: Prompt) -> Prompt:
    sampling = prompt.request.sampling
    short = msgspec.structs.replace(sampling, max_tokens=min(sampling.max_tokens or WARM_UP_TOKENS, WARM_UP_TOKENS))
    return msgspec.structs.replace(prompt, request=msgspec.structs.replace(prompt.request, sampling=short))


def _greedy_answers(traces: Iterable[Trace]) -> dict[str, tuple[int, ...]]:
    """The answer to each prompt that is not sampled, the first one where it was asked several times."""
    answers: dict[str, tuple[int, ...]] = {}
    for trace in traces:
        if trace.prompt.request.sampling.temperature == 0:
            answers.setdefault(trace.prompt.id, trace.token_ids)
    return answers
