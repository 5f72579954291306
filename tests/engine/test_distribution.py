"""At temperature 1 speculation draws from the very distribution that plain decoding draws from: a chi-square test against
the exact probabilities, which planted wrong rules of acceptance do not pass.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from speccli.engine import Request, Step
from speccli.prepare import prepare
from speccli.profile import Method, Sampling, Settings
from speccli.stats import fold
from tests.engine import counting, forked, markov
from tests.engine.goodness import (
    Accepts,
    Corrects,
    Transitions,
    accepted_as_likely,
    corrected_without_the_draft,
    p_value,
    speculated,
)

UNBELIEVABLE = 1e-4
"""A right sampler falls below this once in ten thousand runs. The engine's seed is fixed, so a run is the same each time."""

NUM_REQUESTS, NUM_TOKENS = 96, 64
COUNT = NUM_REQUESTS * NUM_TOKENS

Maker = Callable[[Path], Path]


class Case(msgspec.Struct, frozen=True):
    method: Method
    num_speculative_tokens: int | None = None
    speculator: Maker | None = None


CASES = {
    "plain decoding": Case("none"),
    "ngram": Case("ngram", 3),
    "draft_model": Case("draft_model", 3, counting.draft_model),
    "eagle3": Case("eagle3", 3, counting.eagle3),
    "medusa": Case("medusa", 3, counting.medusa),
}


def settings_of(case: Case, folder: Path) -> Settings:
    return Settings(
        target=str(markov.llama(folder / "target")),
        speculator=str(case.speculator(folder / "other")) if case.speculator else None,
        method=case.method,
        num_speculative_tokens=case.num_speculative_tokens,
        hardware="cpu",
        dtype="float32",
        enforce_eager=True,
        max_model_len=128,
        max_num_seqs=NUM_REQUESTS,
        kv_cache_gib=1.0,
    )


def requests() -> list[Request]:
    sampled = Sampling(temperature=1.0, max_tokens=NUM_TOKENS, ignore_eos=True)
    letters = markov.LETTERS
    return [Request(id=str(i), prompt=letters[i % len(letters)], sampling=sampled) for i in range(NUM_REQUESTS)]


def transitions(steps: list[Step]) -> tuple[Transitions, Transitions]:
    """All of them, and those behind an accepted token. The states are letters by their number."""
    number = {int(token): i for i, token in enumerate(markov.IDS)}
    last = {request.id: number[ord(request.prompt or "")] for request in requests()}
    every: list[tuple[int, int]] = []
    behind: list[tuple[int, int]] = []
    for step in steps:
        for place, token in enumerate(step.token_ids):
            pair = (last[step.request_id], token)
            every.append(pair)
            if place:
                behind.append(pair)
            last[step.request_id] = number[token]
    return every, behind


@pytest.mark.engine
@pytest.mark.parametrize("name", CASES)
def test_tokens_are_drawn_from_the_targets_own_distribution(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECCLI_CACHE", str(tmp_path / "cache"))
    case = CASES[name]
    steps = forked.generate(prepare(settings_of(case, tmp_path), None, lambda line: None, {}), requests())
    every, behind = transitions(steps)
    assert len(every) == COUNT
    assert p_value(every, markov.matrix()) > UNBELIEVABLE
    if case.method != "none":
        acceptance = fold(steps)
        assert 0.1 < acceptance.acceptance_rate_per_pos[0] < 0.9, "both ways of the rule are taken"
        assert p_value(behind, markov.matrix()) > UNBELIEVABLE


def letters_only() -> Any:
    """The matrix without the tokens that never come, so that states and tokens have the same numbers."""
    square = markov.matrix()[:, markov.IDS]
    return square / square.sum(axis=1, keepdims=True)


def sampled(accepts: Accepts, corrects: Corrects, seed: int) -> float:
    """The p-value of a simulated sampler that drafts the likeliest letter, on as many tokens as the engine gives."""
    probabilities = letters_only()
    drafts = [int(token) for token in probabilities.argmax(axis=1)]
    return p_value(speculated(probabilities, drafts, accepts, corrects, COUNT, seed=seed), probabilities)


SEEDS = range(3)


@pytest.mark.parametrize("seed", range(8))
def test_the_right_rule_passes(seed: int) -> None:
    assert sampled(accepted_as_likely, corrected_without_the_draft, seed) > UNBELIEVABLE


@pytest.mark.parametrize("seed", SEEDS)
def test_accepting_a_fifth_too_often_is_found(seed: int) -> None:
    def accepts(row: Any, draft: int, random: Any) -> bool:
        return bool(random.random() < 1.2 * row[draft])

    assert sampled(accepts, corrected_without_the_draft, seed) < UNBELIEVABLE


@pytest.mark.parametrize("seed", SEEDS)
def test_accepting_whatever_is_likeliest_is_found(seed: int) -> None:
    assert (
        sampled(lambda row, draft, random: bool(draft == row.argmax()), corrected_without_the_draft, seed)
        < UNBELIEVABLE
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_a_correction_that_may_be_the_refused_token_again_is_found(seed: int) -> None:
    def corrects(row: Any, draft: int, random: Any) -> int:
        return int(random.choice(len(row), p=row))

    assert sampled(accepted_as_likely, corrects, seed) < UNBELIEVABLE


@pytest.mark.parametrize("seed", SEEDS)
def test_a_correction_that_takes_the_likeliest_of_the_rest_is_found(seed: int) -> None:
    def corrects(row: Any, draft: int, random: Any) -> int:
        return int(np.where(np.arange(len(row)) == draft, 0, row).argmax())

    assert sampled(accepted_as_likely, corrects, seed) < UNBELIEVABLE


def test_a_token_that_cannot_be_is_found() -> None:
    probabilities = markov.matrix()
    good = speculated(letters_only(), [0] * 12, accepted_as_likely, corrected_without_the_draft, COUNT)
    known = [(state, int(markov.IDS[token])) for state, token in good]
    assert p_value(known, probabilities) > UNBELIEVABLE
    assert p_value([*known, (0, 7)], probabilities) == 0.0
