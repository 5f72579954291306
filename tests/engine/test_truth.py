"""The numbers are vLLM's own, and speculation changes no token: on the real engine, for each way to speculate."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from speccli.engine import Message, Request, Step
from speccli.engine.vllm import VllmEngine
from speccli.profile import Sampling
from speccli.stats import Acceptance, fold

pytestmark = pytest.mark.engine

QUESTIONS = [
    "Repeat this sentence three times: The quick brown fox jumps over the lazy dog near the river bank.",
    "List five fruits, one a line.",
    "Write a Python loop that prints the numbers from 1 to 10.",
    "Which years are named here? Built in 1874. Electric since 1962. Automatic since 1988.",
    "Name the four seasons.",
]

CASES = {"ngram": 4, "draft_model": 3, "eagle3": 2, "medusa": 3}


@pytest.fixture(scope="session", params=list(CASES))
def case(request: pytest.FixtureRequest, speculative: Callable[[str], VllmEngine]) -> tuple[str, VllmEngine]:
    return request.param, speculative(request.param)


def requests(**sampling: Any) -> list[Request]:
    given = Sampling(**{"temperature": 0.0, "max_tokens": 40, **sampling})
    return [Request(id=str(i), messages=(Message("user", text),), sampling=given) for i, text in enumerate(QUESTIONS)]


def tokens(steps: list[Step]) -> dict[str, list[int]]:
    answers: dict[str, list[int]] = {}
    for step in steps:
        answers.setdefault(step.request_id, []).extend(step.token_ids)
    return answers


def counters(engine: VllmEngine) -> Acceptance:
    """What vLLM's own Prometheus counters say since the engine started."""
    values = {metric.name: metric for metric in engine._engine.get_metrics()}
    prefix = "vllm:spec_decode_num_"
    return Acceptance(
        values[f"{prefix}drafts"].value,
        values[f"{prefix}draft_tokens"].value,
        values[f"{prefix}accepted_tokens"].value,
        tuple(values[f"{prefix}accepted_tokens_per_pos"].values),
    )


def since(before: Acceptance, after: Acceptance) -> Acceptance:
    per_pos = [
        b - a for a, b in zip(before.num_accepted_tokens_per_pos, after.num_accepted_tokens_per_pos, strict=True)
    ]
    return Acceptance(
        after.num_drafts - before.num_drafts,
        after.num_draft_tokens - before.num_draft_tokens,
        after.num_accepted_tokens - before.num_accepted_tokens,
        tuple(per_pos),
    )


def padded(acceptance: Acceptance, length: int) -> Acceptance:
    """Ours holds a position only once it was drafted; vLLM's holds all k."""
    per_pos = acceptance.num_accepted_tokens_per_pos
    return msgspec.structs.replace(acceptance, num_accepted_tokens_per_pos=per_pos + (0,) * (length - len(per_pos)))


@pytest.mark.parametrize(
    ("how", "sampling"),
    [
        ("one by one", {}),
        ("together", {}),
        ("cut by max_tokens", {"max_tokens": 7}),
        ("cut by a stop string", {"stop": ("fox", "range", "Spring", "8", "an")}),
        ("sampled", {"temperature": 0.9, "seed": 7}),
    ],
)
def test_acceptance_folded_from_steps_equals_vllms_counters(
    case: tuple[str, VllmEngine], how: str, sampling: dict[str, Any]
) -> None:
    name, engine = case
    before = counters(engine)
    batches = [[request] for request in requests(**sampling)] if how == "one by one" else [requests(**sampling)]
    steps = [step for batch in batches for step in engine.generate(batch)]
    folded = fold(steps)
    assert padded(folded, CASES[name]) == since(before, counters(engine))
    assert folded.num_drafts > 0
    if how == "cut by a stop string":
        assert "stop" in {step.finish_reason for step in steps}


def test_greedy_output_equals_plain_greedy_output_token_for_token(
    case: tuple[str, VllmEngine], plain_engine: VllmEngine
) -> None:
    expected = tokens(list(plain_engine.generate(requests())))
    assert tokens(list(case[1].generate(requests()))) == expected
    alone = [step for request in requests() for step in case[1].generate([request])]
    assert tokens(alone) == expected


def test_a_step_brings_the_accepted_tokens_and_one_of_the_targets_own(case: tuple[str, VllmEngine]) -> None:
    for request in requests():
        steps = list(case[1].generate([request]))
        for step, following in pairwise(steps):
            assert len(step.token_ids) == step.num_accepted_tokens + 1, following


def test_the_target_as_its_own_draft_has_every_token_accepted(case: tuple[str, VllmEngine]) -> None:
    if case[0] != "draft_model":
        return
    folded = fold(case[1].generate(requests()))
    assert folded.num_accepted_tokens == folded.num_draft_tokens
    assert folded.mean_acceptance_length == CASES["draft_model"] + 1


@pytest.mark.parametrize("refused", [{"min_p": 0.1, "temperature": 0.7}, {"logit_bias": {"5": 2.0}}, {"top_p": 7.0}])
def test_a_sampling_parameter_that_vllm_refuses_fails_that_request_alone(
    case: tuple[str, VllmEngine], refused: dict[str, Any]
) -> None:
    good, bad = requests(max_tokens=3)[0], requests(max_tokens=3, **refused)[1]
    last = {step.request_id: step for step in case[1].generate([bad, good]) if step.is_last}
    assert next(iter(refused)) in (last["1"].error or "")
    assert last["0"].finish_reason == "length"


def test_plain_decoding_takes_the_sampling_parameters_that_speculation_refuses(plain_engine: VllmEngine) -> None:
    [biased] = requests(max_tokens=3, logit_bias={"1000": 100.0})[:1]
    assert tokens(list(plain_engine.generate([biased]))) == {"0": [1000, 1000, 1000]}
    [floored] = requests(max_tokens=3, min_p=0.5, temperature=0.7)[:1]
    assert [step.error for step in plain_engine.generate([floored])][-1] is None
