"""The lines that people read."""

from speccli.answer import Answer
from speccli.engine import Step
from speccli.stats import Acceptance
from speccli.view import acceptance_lines, statistics_lines


def answered(*steps: Step) -> Answer:
    answer = Answer(started_s=10.0)
    for step in steps:
        answer.add(step)
    return answer


def step(tokens: int, at_s: float, drafted: int = 0, accepted: int = 0, finish_reason: str | None = None) -> Step:
    return Step(
        request_id="a", token_ids=tuple(range(tokens)), at_s=at_s, num_draft_tokens=drafted, num_accepted_tokens=accepted,
        finish_reason=finish_reason,  # type: ignore[arg-type]
    )  # fmt: skip


def test_an_answers_statistics() -> None:
    answer = answered(step(1, 10.5), step(3, 11.0, 3, 2), step(1, 11.5, 3, 0, "stop"))
    assert statistics_lines(answer) == [
        "5 tokens · 4.0 tokens/s · first token 0.50 s",
        "mean acceptance length 2.00 · acceptance rate 33% (2 of 6 drafted, 2 drafts)",
        "accepted by position  1: 50%  2: 50%  3: 0%",
    ]


def test_an_answer_that_was_cut_short_says_by_what() -> None:
    assert statistics_lines(answered(step(1, 10.5), step(1, 11.5, finish_reason="length")))[0].endswith(
        "ended by length"
    )


def test_plain_decoding_says_that_nothing_was_drafted() -> None:
    assert acceptance_lines(Acceptance()) == ["nothing was drafted"]


def test_one_step_has_no_rate() -> None:
    assert statistics_lines(answered(step(1, 10.5, finish_reason="stop"))) == [
        "1 token · first token 0.50 s",
        "nothing was drafted",
    ]
