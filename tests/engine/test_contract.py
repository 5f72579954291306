"""What every engine promises: one suite, run on the scripted engine and on vLLM, plain and speculating."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from speccli.engine import Engine, Message, Request, Step
from speccli.engine.scripted import Answer, Refused, ScriptedEngine, Wrote
from speccli.engine.vllm import VllmEngine
from speccli.profile import Sampling
from tests.conftest import Speculative

TOO_LONG = "one two three " * 2000


def _scripted(request: Request) -> Answer:
    if request.prompt == TOO_LONG:
        return Refused("the prompt is longer than the context")
    length = request.sampling.max_tokens or 5
    return [Wrote(f"w{i} ", finish_reason="length" if i == length - 1 else None) for i in range(length)]


@pytest.fixture(
    scope="session",
    params=[
        "scripted",
        pytest.param("plain", marks=pytest.mark.engine),
        pytest.param("ngram", marks=pytest.mark.engine),
    ],
)
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    if request.param == "scripted":
        yield ScriptedEngine(_scripted, max_in_flight=8)
    else:
        yield request.getfixturevalue(f"{request.param}_engine")


@pytest.fixture(scope="session")
def ngram_engine(speculative: Speculative) -> VllmEngine:
    return speculative("ngram")


def ask(name: str, text: str = "Count from one to twenty.", **sampling: Any) -> Request:
    return Request(id=name, messages=(Message("user", text),), sampling=Sampling(temperature=0.0, **sampling))


def test_an_answer_is_a_stream_of_steps_of_which_the_last_has_a_finish_reason(engine: Engine) -> None:
    steps = list(engine.generate([ask("a", max_tokens=6)]))
    assert [step.is_last for step in steps] == [False] * (len(steps) - 1) + [True]
    assert steps[-1].finish_reason == "length"
    assert sum(len(step.token_ids) for step in steps) == 6
    assert "".join(step.text for step in steps).strip()


def test_no_requests_are_no_steps(engine: Engine) -> None:
    assert list(engine.generate([])) == []


def test_requests_are_pulled_only_when_a_slot_is_free(engine: Engine) -> None:
    pulled = 0
    finished = 0

    def requests() -> Iterator[Request]:
        nonlocal pulled
        for number in range(20):
            pulled += 1
            assert pulled - finished <= engine.max_in_flight
            yield ask(str(number), max_tokens=3)

    for step in engine.generate(requests()):
        finished += step.is_last
    assert (pulled, finished) == (20, 20)


def test_closing_the_iterator_aborts_and_the_engine_answers_the_next_request(engine: Engine) -> None:
    steps = engine.generate([ask("a", max_tokens=500), ask("b", max_tokens=500)])
    next(steps)
    steps.close()  # type: ignore[attr-defined]
    after = list(engine.generate([ask("c", max_tokens=4)]))
    assert {step.request_id for step in after} == {"c"}


def test_a_prompt_that_is_too_long_fails_alone(engine: Engine) -> None:
    requests = [ask("a", max_tokens=3), Request(id="long", prompt=TOO_LONG), ask("b", max_tokens=3)]
    last = {step.request_id: step for step in engine.generate(requests) if step.is_last}
    assert last["long"].finish_reason == "error"
    assert "context" in (last["long"].error or "")
    assert [last[name].finish_reason for name in "ab"] == ["length", "length"]


def test_any_number_of_refusals_in_a_row_stops_nothing(engine: Engine) -> None:
    refused = [Request(id=str(number), prompt=TOO_LONG) for number in range(2 * engine.max_in_flight)]
    last = {step.request_id: step for step in engine.generate([*refused, ask("good", max_tokens=2)]) if step.is_last}
    assert len(last) == len(refused) + 1
    assert last["good"].finish_reason == "length"


def test_the_same_id_twice_is_answered_twice(engine: Engine) -> None:
    last = [step for step in engine.generate([ask("a", max_tokens=2), ask("a", max_tokens=2)]) if step.is_last]
    assert [step.request_id for step in last] == ["a", "a"]


def test_drafted_and_accepted_are_never_negative_and_plain_steps_draft_nothing(engine: Engine) -> None:
    steps: list[Step] = list(engine.generate([ask("a", text="Repeat: a b c d a b c d a b c d", max_tokens=24)]))
    assert all(0 <= step.num_accepted_tokens <= step.num_draft_tokens for step in steps)
    assert steps[0].num_draft_tokens == 0


def test_a_prompt_is_measured_as_it_is_run_and_beyond_the_context(engine: Engine) -> None:
    request = ask("a", max_tokens=2)
    measured = engine.measure(request)
    assert measured is not None
    assert not measured.opens_reasoning
    assert {step.num_prompt_tokens for step in engine.generate([request])} == {measured.num_tokens}
    long = engine.measure(ask("b", text=TOO_LONG))
    assert long is not None
    assert long.num_tokens >= 6000


@pytest.mark.parametrize("text", ["Count from one to twenty.", "Repeat: 👩‍👩‍👧 漢字 é 👍🏽 👩‍👩‍👧 漢字 é 👍🏽"])
def test_the_texts_of_the_tokens_make_the_text(engine: Engine, text: str) -> None:
    request = msgspec.structs.replace(ask("a", text=text, max_tokens=40), wants_token_texts=True)
    steps = list(engine.generate([request]))
    assert all(len(step.token_texts) == len(step.token_ids) for step in steps)
    assert "".join(part for step in steps for part in step.token_texts) == "".join(step.text for step in steps)
