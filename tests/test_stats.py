"""Acceptance and timing, folded from steps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speccli.engine import Merged, Step
from speccli.stats import Acceptance, Latencies, Timing, fold


def step(drafted: int = 0, accepted: int = 0, tokens: int = 1, at_s: float = 0.0) -> Step:
    return Step(
        request_id="a",
        token_ids=tuple(range(tokens)),
        num_draft_tokens=drafted,
        num_accepted_tokens=accepted,
        at_s=at_s,
    )


def test_rates_are_vllms() -> None:
    acceptance = fold([step(), step(4, 4, 5), step(4, 1, 2), step(2, 0, 1)])
    assert acceptance == Acceptance(3, 10, 5, (2, 1, 1, 1))
    assert acceptance.mean_acceptance_length == pytest.approx(1 + 5 / 3)
    assert acceptance.draft_acceptance_rate == 0.5
    assert acceptance.acceptance_rate_per_pos == pytest.approx((2 / 3, 1 / 3, 1 / 3, 1 / 3))


def test_plain_decoding_has_no_drafts_and_one_token_a_step() -> None:
    acceptance = fold([step(), step()])
    assert acceptance == Acceptance()
    assert (
        acceptance.mean_acceptance_length,
        acceptance.draft_acceptance_rate,
        acceptance.acceptance_rate_per_pos,
    ) == (1.0, 0.0, ())


def test_positions_that_are_known_before_the_first_draft_have_no_rates() -> None:
    """vLLM's counters of a server that has answered nothing yet."""
    assert Acceptance(0, 0, 0, (0, 0, 0)).acceptance_rate_per_pos == ()


def test_a_step_cut_short_still_counts_all_that_was_accepted() -> None:
    assert fold([step(4, 4, 2)]).num_accepted_tokens == 4


@given(st.lists(st.integers(0, 8).flatmap(lambda drafted: st.tuples(st.just(drafted), st.integers(0, drafted)))))
def test_positions_add_up_to_the_accepted_tokens_and_never_rise(counts: list[tuple[int, int]]) -> None:
    acceptance = fold(step(*one) for one in counts)
    per_pos = acceptance.num_accepted_tokens_per_pos
    assert sum(per_pos) == acceptance.num_accepted_tokens == sum(accepted for _, accepted in counts)
    assert list(per_pos) == sorted(per_pos, reverse=True)
    assert len(per_pos) == max((drafted for drafted, _ in counts), default=0)


def test_the_decode_rate_leaves_out_the_first_step_and_counts_tokens_not_chunks() -> None:
    timing = Timing(started_s=10.0)
    for one in (step(tokens=1, at_s=12.0), step(tokens=5, at_s=13.0), step(tokens=3, at_s=14.0)):
        timing = timing.after(one)
    assert timing.time_to_first_token_s == 2.0
    assert timing.decode_tokens_per_s == 4.0


def test_one_step_has_no_decode_rate() -> None:
    timing = Timing(started_s=0.0).after(step(tokens=3, at_s=1.0))
    assert timing.decode_tokens_per_s is None


def test_a_merged_step_counts_as_the_steps_that_it_tells_of() -> None:
    single = fold([step(4, 4, 5), step(4, 1, 2), step(4, 0, 1)])
    together = Step(
        request_id="a", token_ids=tuple(range(8)), num_draft_tokens=12, num_accepted_tokens=5, merged=Merged(3, (2, 1, 1, 1))
    )  # fmt: skip
    assert fold([together]) == single
    assert fold([together, step(4, 4, 5)]) == single.plus(fold([step(4, 4, 5)]))


@given(st.lists(st.floats(1e-4, 1e5), min_size=1, max_size=50), st.sampled_from([0.5, 0.9, 0.99, 1.0]))
def test_a_percentile_is_right_to_within_one_percent(durations: list[float], share: float) -> None:
    latencies = Latencies()
    for seconds in durations:
        latencies.add(seconds)
    index = next(i for i in range(len(durations)) if i + 1 >= share * len(durations))
    assert latencies.percentile(share) == pytest.approx(sorted(durations)[index], rel=0.0101, abs=1e-4)


def test_nothing_has_no_percentiles() -> None:
    assert Latencies().percentile(0.5) is None
