"""How ways compare: speed-up with its spread, what is noise, and where greedy answers differ."""

from __future__ import annotations

import pytest

from speccli.bench.compare import Difference, Spread, differences, rows, verdict
from speccli.stats import Acceptance
from tests.bench import example
from tests.bench.example import ACCEPTED


@pytest.mark.parametrize(
    ("way", "plain", "expected"),
    [
        ([13.0, 12.0, 14.0], [10.0, 11.0, 10.5], "faster"),
        ([8.0, 8.5, 9.0], [10.0, 11.0, 10.5], "slower"),
        ([10.9, 13.0, 14.0], [10.0, 11.0, 10.5], "noise"),
        ([9.0, 10.2, 8.0], [10.0, 11.0, 10.5], "noise"),
        ([10.1, 10.2, 10.1], [10.0, 10.0, 10.0], "noise"),
        ([9.9, 9.8, 9.9], [10.0, 10.0, 10.0], "noise"),
        ([20.0, 20.0], [10.0, 10.0, 10.0], "too few repeats"),
        ([20.0, 20.0, 20.0], [10.0], "too few repeats"),
    ],
)
def test_a_difference_counts_when_no_repeat_contradicts_it_and_it_is_larger_than_that_of_two_starts(
    way: list[float], plain: list[float], expected: str
) -> None:
    assert verdict(way, plain) == expected


def test_a_speed_up_is_that_of_the_medians_and_spreads_as_far_as_single_repeats_do() -> None:
    measured = {"plain": example.results(10.0, 8.0, 12.5), "ngram k=4": example.results(20.0, 25.0, 15.0)}
    found = [row for row in rows(measured, ["plain", "ngram k=4"], [1]) if row.category == "all"]
    assert [row.decode_tokens_per_s for row in found] == [Spread(10.0, 8.0, 12.5), Spread(20.0, 15.0, 25.0)]
    assert [row.speedup for row in found] == [None, Spread(2.0, 15.0 / 12.5, 25.0 / 8.0)]
    assert [row.verdict for row in found] == [None, "faster"]


def test_rows_go_by_batch_size_then_category_then_way() -> None:
    measured = {
        "plain": example.results(10.0) + example.results(30.0, batch_size=4),
        "ngram k=4": example.results(20.0, batch_size=4, acceptance=ACCEPTED),
    }
    found = rows(measured, ["plain", "ngram k=4"], [1, 4])
    assert [(row.batch_size, row.category, row.way) for row in found] == [
        (1, "all", "plain"), (1, "chat", "plain"), (1, "code", "plain"),
        (4, "all", "plain"), (4, "all", "ngram k=4"), (4, "chat", "plain"), (4, "chat", "ngram k=4"),
        (4, "code", "plain"), (4, "code", "ngram k=4"),
    ]  # fmt: skip
    assert found[3].speedup is None


def test_acceptance_is_that_of_all_repeats() -> None:
    measured = {"ngram k=4": example.results(1.0, 2.0, acceptance=ACCEPTED)}
    [pooled, chat, code] = rows(measured, ["ngram k=4"], [1])
    assert pooled.acceptance == chat.acceptance == Acceptance(20, 40, 14, (10, 4))
    assert code.acceptance == Acceptance()
    assert pooled.speedup is None, "there is no plain decoding to compare with"


def test_the_first_prompt_and_token_that_differ_are_named() -> None:
    measured = {
        "plain": example.results(1.0),
        "same": example.results(1.0),
        "other": example.results(1.0, tokens=(1, 7, 3)),
        "shorter": example.results(1.0, tokens=(1, 2)),
    }
    assert differences(measured, list(measured), [1]) == [
        Difference("other", 1, num_different=1, num_prompts=2, prompt="b", position=2),
        Difference("shorter", 1, num_different=1, num_prompts=2, prompt="b", position=3),
    ]


def test_sampled_answers_are_not_compared() -> None:
    assert differences({"plain": example.results(1.0)[1:], "ngram k=4": example.results(1.0)}, ["ngram k=4"], [1]) == []
