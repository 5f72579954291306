"""What a request may ask of the real engine, and what merged steps tell."""

from __future__ import annotations

import json
from typing import Any

import pytest

from speccli.engine import Message, Request, Step
from speccli.engine.vllm import VllmEngine
from speccli.profile import Sampling
from speccli.stats import Acceptance, fold
from tests.conftest import Speculative

pytestmark = pytest.mark.engine

QUESTION = "Repeat this: one two three one two three one two three."


def request(text: str = QUESTION, name: str = "a", max_tokens: int = 24, **further: Any) -> Request:
    sampling = Sampling(temperature=0.0, max_tokens=max_tokens, **further.pop("sampling", {}))
    return Request(id=name, messages=(Message("user", text),), sampling=sampling, **further)


def answered(engine: VllmEngine, asked: Request) -> list[Step]:
    steps = list(engine.generate([asked]))
    assert steps[-1].error is None, steps[-1].error
    return steps


def text(steps: list[Step]) -> str:
    return "".join(step.text for step in steps)


@pytest.fixture(scope="module")
def ngram(speculative: Speculative) -> VllmEngine:
    return speculative("ngram")


def test_merged_steps_are_fewer_and_tell_the_same(ngram: VllmEngine) -> None:
    sampling = {"ignore_eos": True}
    single = answered(ngram, request(max_tokens=48, sampling=sampling))
    merged = answered(ngram, request(max_tokens=48, sampling=sampling, stream_interval=16))
    assert text(merged) == text(single)
    assert len(merged) < len(single) / 2
    assert max(len(step.token_ids) for step in merged) >= 16
    assert _trimmed(fold(merged)) == _trimmed(fold(single))
    assert fold(single).num_drafts > 2


def _trimmed(acceptance: Acceptance) -> tuple[int, int, int, tuple[int, ...]]:
    """Merged counts have a place for every proposable token, counts by step only for those that were proposed."""
    per_pos = acceptance.num_accepted_tokens_per_pos
    while per_pos and not per_pos[-1]:
        per_pos = per_pos[:-1]
    return acceptance.num_drafts, acceptance.num_draft_tokens, acceptance.num_accepted_tokens, per_pos


@pytest.mark.parametrize(
    "sampling",
    [{"seed": 2**64}, {"structured_outputs": {"json": {"type": "integer", "maximum": 10**30}}}],
)
def test_a_number_that_is_too_large_for_vllms_messages_fails_that_request_alone(
    ngram: VllmEngine, sampling: dict[str, Any]
) -> None:
    [refused] = ngram.generate([request(sampling=sampling)])
    assert refused.finish_reason == "error"
    assert "2**63" in (refused.error or "")
    assert not ngram._engine.output_processor.request_states, "nothing of it is left"
    assert text(answered(ngram, request()))


@pytest.mark.parametrize("stream_interval", [1, 16])
def test_every_token_has_its_logprobs(ngram: VllmEngine, stream_interval: int) -> None:
    steps = answered(ngram, request(sampling={"logprobs": 2}, stream_interval=stream_interval))
    logprobs = [one for step in steps for one in step.logprobs]
    assert len(logprobs) == sum(len(step.token_ids) for step in steps)
    assert all(len(one.top_logprobs) == 2 for one in logprobs)
    assert all(one.logprob == one.top_logprobs[0].logprob <= 0 for one in logprobs), "greedy takes the likeliest"
    assert "".join(one.token for one in logprobs).startswith(text(steps))


def test_structured_output_is_what_was_asked_for(ngram: VllmEngine) -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"enum": ["Paris", "Rome"]}},
        "required": ["city"],
        "additionalProperties": False,
    }
    steps = answered(ngram, request("Name a city.", sampling={"structured_outputs": {"json": schema}}))
    assert json.loads(text(steps))["city"] in ("Paris", "Rome")
    steps = answered(ngram, request("Yes or no?", sampling={"structured_outputs": {"choice": ["yes", "no"]}}))
    assert text(steps) in ("yes", "no")


@pytest.mark.parametrize(
    "asked",
    [
        {"structured_outputs": {"json": {"type": "nonsense"}}}, {"structured_outputs": {"nonsense": 1}}, {"structured_outputs": {}},
        {"logprobs": 10_000}, {"stop_token_ids": (10**9,)}, {"min_tokens": 99},
    ],
)  # fmt: skip
def test_what_cannot_be_asked_fails_that_request_alone(ngram: VllmEngine, asked: dict[str, Any]) -> None:
    bad, good = request(name="bad", max_tokens=4, sampling=asked), request(name="good", max_tokens=4)
    last = {step.request_id: step for step in ngram.generate([bad, good]) if step.is_last}
    assert last["bad"].error
    assert last["good"].finish_reason == "length"


def test_a_prompt_longer_than_the_context_is_cut_from_the_left_where_asked(ngram: VllmEngine) -> None:
    long = "word " * 5000 + "What is the capital of France?"
    [refused] = ngram.generate([request(long)])
    assert "maximum context length" in (refused.error or "")
    steps = answered(ngram, request(long, max_tokens=10, truncate=True))
    assert steps[0].is_truncated
    assert steps[0].num_prompt_tokens == 1024 - 10
    whole = answered(ngram, request("Hello", max_tokens=3, truncate=True))
    assert not whole[0].is_truncated


def test_the_chat_template_gets_its_arguments(ngram: VllmEngine) -> None:
    def prompt_tokens(**further: Any) -> int:
        return answered(ngram, request("Hello", max_tokens=1, **further))[0].num_prompt_tokens

    without = {"chat_template_kwargs": {"add_generation_prompt": False}}
    assert prompt_tokens(**without) < prompt_tokens()


def test_no_more_than_asked_are_in_flight(ngram: VllmEngine) -> None:
    pulled = finished = most = 0

    def requests() -> Any:
        nonlocal pulled, most
        for number in range(9):
            pulled += 1
            most = max(most, pulled - finished)
            yield request(name=str(number), max_tokens=2)

    for step in ngram.generate(requests(), max_in_flight=2):
        finished += step.is_last
    assert (pulled, most) == (9, 2)
