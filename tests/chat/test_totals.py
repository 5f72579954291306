"""Sums over turns, and comparisons."""

import pytest

from speccli.chat.comparison import Comparison
from speccli.chat.totals import plain_tokens_per_s, tokens_per_step, total
from speccli.stats import Acceptance
from tests.chat.examples import NGRAM, PLAIN, SEA, step, turn

SAME_PLAIN = turn(
    *[step(text, at_s=11.0 + place, token_ids=(token_id,)) for place, (text, token_id) in enumerate(
        [("The", 10), (" sea", 10), (" is", 11), (" wide", 12), (".", 10)])],
    run=PLAIN,
)  # fmt: skip


def test_the_session_is_the_sum_of_its_turns() -> None:
    sums = total([turn(*SEA), turn(*SEA), SAME_PLAIN])
    assert (sums.num_turns, sums.num_tokens, sums.num_prompt_tokens, sums.num_steps) == (3, 15, 21, 11)
    assert sums.acceptance == Acceptance(4, 12, 4, (2, 2, 0))
    assert sums.decode_tokens_per_s == pytest.approx((4 + 4 + 4) / (1 + 1 + 4))


def test_a_session_without_turns_has_no_rate() -> None:
    assert total([]).decode_tokens_per_s is None


@pytest.mark.parametrize(
    ("acceptance", "num_steps", "expected"),
    [
        (Acceptance(2, 6, 2, (1, 1, 0)), 3, (2, 0, 1, 0)),
        (Acceptance(), 5, (5,)),
        (Acceptance(4, 12, 6, (3, 2, 1)), 4, (1, 1, 1, 1)),
    ],
)
def test_how_many_tokens_the_steps_gave(acceptance: Acceptance, num_steps: int, expected: tuple[int, ...]) -> None:
    assert tokens_per_step(acceptance, num_steps) == expected
    assert sum(expected) == num_steps


def test_plain_decoding_is_compared_with_where_it_was_measured() -> None:
    assert plain_tokens_per_s([turn(*SEA)], NGRAM) is None
    assert plain_tokens_per_s([turn(*SEA), SAME_PLAIN], NGRAM) == 1.0


def test_the_first_differing_token_is_found_by_id() -> None:
    assert Comparison(turn(*SEA), SAME_PLAIN).first_difference is None
    other = turn(step("The", token_ids=(10,)), step(" ocean", token_ids=(77,)), run=PLAIN)
    assert Comparison(turn(*SEA), other).first_difference == 1


def test_an_answer_that_ends_early_differs_nowhere_as_far_as_it_goes() -> None:
    short = turn(step("The", token_ids=(10,)), run=PLAIN)
    compared = Comparison(turn(*SEA), short)
    assert (compared.first_difference, compared.num_compared, compared.speedup) == (None, 1, None)


def test_the_speedup_is_the_ratio_of_the_decoding_rates() -> None:
    assert Comparison(turn(*SEA), SAME_PLAIN).speedup == 4.0
