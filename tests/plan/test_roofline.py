"""The estimate of the speed-up: its limits are known even where its figures are guesses."""

from __future__ import annotations

from typing import Any

import pytest

from speccli.hardware.shipped import named
from speccli.plan import roofline
from speccli.plan.roofline import Cost
from speccli.plan.sizes import sizes_of
from tests.plan.example import planned


def cost(machine: str = "h100", **settings: Any) -> Cost:
    plan = planned(machine, **settings)
    assert plan.estimate is not None
    sizes = sizes_of(plan.profile.settings, plan.hardware, plan.pairing, plan.checkpoints)
    found = roofline.cost_of(plan.hardware, plan.pairing, sizes, plan.estimate)
    assert found is not None
    return found


EAGLE3 = {"target": "llama-3.1-8b-bf16", "method": "eagle3"}


def test_acceptance_length_counts_the_bonus_token() -> None:
    assert roofline.acceptance_length(0.0, 5) == 1.0
    assert roofline.acceptance_length(1.0, 5) == 6.0
    assert roofline.acceptance_length(0.5, 2) == 1.75


def test_the_chance_is_the_one_that_gives_the_published_length() -> None:
    found = cost(**EAGLE3)
    assert found.origin == "2.60 tokens a step at k=3, MT-Bench"
    assert roofline.acceptance_length(found.chance, 3) == pytest.approx(2.6, abs=0.001)


def test_plain_decoding_of_one_request_is_bound_by_reading_the_weights() -> None:
    found = roofline.speedup(cost(**EAGLE3), 3, 1, 0)
    # 14.97 GiB over 80 % of 3,350 GB/s, and 0.3 ms
    assert 1 / found.plain_tokens_per_s == pytest.approx(16.05e9 / (0.8 * 3350e9) + 0.0003, rel=0.01)


def test_one_request_gains_and_many_gain_less() -> None:
    found = cost(**EAGLE3)
    gains = [roofline.speedup(found, 3, batch, 0).speedup for batch in (1, 64, 512)]
    assert 1.5 < gains[0] < 2.6
    assert gains == sorted(gains, reverse=True)
    assert gains[-1] < 1.3


def test_a_long_context_makes_speculation_worth_more_in_a_batch() -> None:
    found = cost(**EAGLE3)
    assert roofline.speedup(found, 3, 64, 8192).speedup > roofline.speedup(found, 3, 64, 0).speedup


def test_look_up_costs_nothing_and_gains_what_is_accepted() -> None:
    found = cost(target="llama-3.1-8b-bf16", method="ngram")
    made = roofline.speedup(found, 4, 1, 2048)
    assert made.speedup == pytest.approx(made.acceptance_length, rel=0.01)


def test_verification_is_free_up_to_the_ridge_of_the_roofline() -> None:
    found = roofline.free_tokens(cost(**EAGLE3))
    # 989e12 FLOP/s against 3,350e9 bytes/s, 2 bytes a parameter: 295 tokens; the embedding is not multiplied
    assert found == pytest.approx(295 * 16.05 / 15.0, rel=0.03)


def test_more_tokens_than_acceptance_can_pay_are_noticed() -> None:
    found = cost("l4", target="llama-3.1-8b-fp8", method="draft_model", speculator="draft-1b")
    assert roofline.best_k(found, 16, 1, 2048) < 16


def test_without_figures_of_the_machine_nothing_is_estimated() -> None:
    plan = planned("l4", **EAGLE3)
    assert plan.estimate is not None
    sizes = sizes_of(plan.profile.settings, plan.hardware, plan.pairing, plan.checkpoints)
    assert roofline.cost_of(named("cpu"), plan.pairing, sizes, plan.estimate) is None
