"""Where each token came from, exactly."""

from speccli.chat.turn import Piece, Token, pieces, tokens_of
from speccli.stats import Acceptance
from tests.chat.examples import SEA, step, turn


def test_of_a_step_the_accepted_tokens_were_drafted_and_the_next_is_the_targets_own() -> None:
    assert [(token.text, token.origin) for token in tokens_of(SEA)] == [
        ("The", "target"),
        (" sea", "draft"),
        (" is", "draft"),
        (" wide", "target"),
        (".", "target"),
    ]


def test_a_rejected_draft_leaves_only_a_token_of_the_target() -> None:
    assert tokens_of([step("no", drafted=4, accepted=0)]) == (Token(10, "no", "target"),)


def test_a_step_that_is_cut_short_may_hold_accepted_tokens_only() -> None:
    cut = step(" a", " b", drafted=3, accepted=3, finish_reason="length")
    assert [token.origin for token in tokens_of([cut])] == ["draft", "draft"]


def test_a_character_of_several_tokens_belongs_to_all_of_them() -> None:
    snowman = tokens_of([step("", drafted=3, accepted=1, token_ids=(1, 2, 3), token_texts=("", "", "☃"), text="☃")])
    assert pieces(snowman) == [Piece("☃", ("draft", "target", "target"))]
    assert pieces(snowman)[0].origin == "both"


def test_a_character_of_tokens_of_one_origin_has_that_origin() -> None:
    drafted = tokens_of([step("", "é", drafted=2, accepted=2)])
    assert [piece.origin for piece in pieces(drafted)] == ["draft"]


def test_a_character_may_begin_in_one_step_and_end_in_the_next() -> None:
    split = tokens_of([step("so ", "", drafted=2, accepted=1), step("é", " be it")])
    assert pieces(split) == [
        Piece("so ", ("draft",)),
        Piece("é", ("target", "target")),
        Piece(" be it", ("target",)),
    ]


def test_what_a_stop_string_cut_off_the_text_is_cut_off_the_tokens() -> None:
    tokens = tokens_of([step("one", " two END", " three", text="one two", drafted=2, accepted=2)])
    assert [token.text for token in tokens] == ["one", " two", ""]


def test_the_token_that_ends_an_answer_has_no_text() -> None:
    ended = tokens_of([step("Yes.", token_ids=(5, 2), token_texts=("Yes.",), text="Yes.", finish_reason="stop")])
    assert ended == (Token(5, "Yes.", "target"), Token(2, "", "target"))


def test_a_turn_counts_what_its_steps_count() -> None:
    made = turn(*SEA)
    assert made.acceptance == Acceptance(2, 6, 2, (1, 1, 0))
    assert (made.num_steps, made.num_prompt_tokens, made.num_tokens, made.finish_reason) == (3, 7, 12, "stop")
    assert (made.timing.started_s, made.timing.time_to_first_token_s, made.timing.decode_tokens_per_s) == (
        0.0,
        0.5,
        4.0,
    )


def test_a_turn_without_a_step_is_an_interrupted_one() -> None:
    assert (turn().answer, turn().finish_reason, turn().tokens) == ("", None, ())
