"""What is measured of a run, on the scripted engine."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from speccli.bench.cells import Cell, Percentiles
from speccli.bench.measure import WARM_UP_TOKENS, Trace, busy_s, figures, measure, percentiles, warm_up
from speccli.bench.prompts import POOLED
from speccli.engine import Request, Step
from speccli.engine.scripted import Answer, Refused, ScriptedEngine, Wrote
from speccli.errors import UsageError
from speccli.profile import Sampling
from speccli.stats import Acceptance
from tests.bench.example import GREEDY, prompt


class Watched(ScriptedEngine):
    """Counts what it is asked, and how many requests were in flight at most."""

    def __init__(self) -> None:
        super().__init__(self._write, max_in_flight=99)
        self.asked: list[Request] = []

    def _write(self, request: Request) -> Answer:
        self.asked.append(request)
        return [Wrote("one"), Wrote(" two", tokens=2, drafted=3, accepted=1), Wrote(" three", tokens=1, drafted=3)]


def step(at_s: float, tokens: int = 1, drafted: int = 0, accepted: int = 0, last: bool = False) -> Step:
    return Step(
        request_id="0",
        token_ids=tuple(range(tokens)),
        num_draft_tokens=drafted,
        num_accepted_tokens=accepted,
        at_s=at_s,
        finish_reason="stop" if last else None,
    )


def trace(started_s: float, steps: Sequence[Step]) -> Trace:
    made = Trace(prompt("a"), started_s)
    for one in steps:
        made.add(one)
    return made


def test_figures_of_two_answers_that_overlap() -> None:
    first = trace(
        10.0, [step(11.0), step(12.0, 3, drafted=3, accepted=2), step(14.0, 2, drafted=3, accepted=1, last=True)]
    )
    second = trace(11.0, [step(11.5), step(13.5), step(16.0, last=True)])
    found = figures([first, second])
    assert (found.num_requests, found.num_tokens) == (2, 9)
    assert found.decode_tokens_per_s == 1.4  # 5 and 2 tokens after the first ones, in the 5 s from 11.0 to 16.0
    assert found.time_to_first_token_s == Percentiles(0.75, 0.95, 0.995)
    assert found.inter_token_latency_s == Percentiles(2.0, 2.35, 2.485)  # of 1.0, 2.0, 2.0 and 2.5
    assert found.acceptance == Acceptance(2, 6, 3, (2, 1, 0))


def test_an_answer_of_one_step_has_no_speed() -> None:
    found = figures([trace(0.0, [step(1.0, 2, last=True)])])
    assert (found.decode_tokens_per_s, found.inter_token_latency_s) == (None, None)


def test_time_in_which_nothing_grows_does_not_count() -> None:
    assert busy_s([(5.0, 6.0), (1.0, 3.0), (2.0, 4.0), (2.5, 3.0)]) == 4.0
    assert busy_s([]) == 0.0


def test_percentiles_lie_between_the_two_nearest_values() -> None:
    assert percentiles([3.0, 1.0, 2.0]) == Percentiles(2.0, 2.8, 2.98)
    assert percentiles([7.0]) == Percentiles(7.0, 7.0, 7.0)
    assert percentiles([]) is None


def test_a_cell_measures_each_category_and_all_together() -> None:
    prompts = [prompt("a", "x"), prompt("b", "x"), prompt("c", "y")]
    engine = Watched()
    result = measure(engine, prompts, Cell(1, 1))
    assert [request.messages[-1].content for request in engine.asked] == ["a", "b", "c"]
    assert {name: one.num_requests for name, one in result.figures.items()} == {POOLED: 3, "x": 2, "y": 1}
    assert result.figures[POOLED].acceptance == Acceptance(6, 18, 3, (3, 0, 0))
    assert result.token_ids == dict.fromkeys("abc", (0, 0, 1, 0))


def test_only_greedy_answers_of_the_first_repeat_are_kept() -> None:
    prompts = [prompt("a"), prompt("b", sampling=Sampling(temperature=0.7))]
    assert list(measure(Watched(), prompts, Cell(1, 1)).token_ids) == ["a"]
    assert measure(Watched(), prompts, Cell(2, 1)).token_ids == {}


def test_a_batch_repeats_the_prompts_so_that_it_is_full_for_most_of_the_time() -> None:
    engine = Watched()
    measure(engine, [prompt("a"), prompt("b"), prompt("c")], Cell(1, 4))
    assert [request.messages[-1].content for request in engine.asked] == list("abcabcabc")


def test_no_more_requests_are_in_flight_than_the_batch_size() -> None:
    in_flight = 0
    most = 0

    class Counting(Watched):
        def _write(self, request: Request) -> Answer:
            nonlocal in_flight, most
            in_flight += 1
            most = max(most, in_flight)
            return super()._write(request)

        def _steps(self, request: Request):  # type: ignore[no-untyped-def]
            nonlocal in_flight
            for one in super()._steps(request):
                in_flight -= one.is_last
                yield one

    measure(Counting(), [prompt(name) for name in "abcdefgh"], Cell(1, 3))
    assert most == 3


def test_a_refused_prompt_stops_the_bench_and_is_named() -> None:
    with pytest.raises(UsageError, match="prompt a was refused: too long"):
        measure(ScriptedEngine([Refused("too long")]), [prompt("a")], Cell(1, 1))


def test_the_warm_up_asks_one_short_answer_of_each_category_or_as_many_as_fill_the_batch() -> None:
    prompts = [prompt("a", "x", Sampling(max_tokens=500)), prompt("b", "x"), prompt("c", "y", GREEDY)]
    engine = Watched()
    warm_up(engine, prompts, 3)
    assert [request.messages[-1].content for request in engine.asked] == list("acac")
    assert [request.sampling.max_tokens for request in engine.asked[:2]] == [WARM_UP_TOKENS, 16]
