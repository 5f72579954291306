"""Reasoning is told apart from the answer, however the text is cut into steps."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speccli.chat.reasoning import Part, Splitter, split
from speccli.engine import Split, Step


@pytest.mark.parametrize(
    ("text", "opens", "expected"),
    [
        ("<think>\nHm.\n</think>\n\nYes.", False, ("Hm.", "Yes.")),
        ("Hm.\n</think>\n\nYes.", True, ("Hm.", "Yes.")),
        ("[THINK]Hm.[/THINK]Yes.", False, ("Hm.", "Yes.")),
        ("Plain.", False, ("", "Plain.")),
        ("Write <think> first.", False, ("", "Write <think> first.")),
        ("Ends in </think>", False, ("", "Ends in </think>")),
        ("<think>never ends", False, ("never ends", "")),
        ("<thing>", False, ("", "<thing>")),
        ("<thi", False, ("", "<thi")),
        ("\n\n  <think>a</think>b", False, ("a", "b")),
        ("  indented", False, ("", "  indented")),
        ("<think>a < b </thin k></think> c", False, ("a < b </thin k>", " c")),
        ("", False, ("", "")),
    ],
)
def test_reasoning_and_answer(text: str, opens: bool, expected: tuple[str, str]) -> None:
    assert split(text, opens) == expected


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.sampled_from(["<think>", "</think>", "<", "think", ">", "/", "a", " ", "\n", "</th"]), max_size=12),
    st.booleans(),
)
def test_the_cuts_between_steps_do_not_matter(pieces: list[str], opens: bool) -> None:
    splitter = Splitter(opens)
    parts = [part for piece in pieces for part in splitter.feed(piece)] + splitter.finish()
    told = tuple("".join(part.text for part in parts if part.kind == kind) for kind in ("reasoning", "answer"))
    assert (told[0].strip(), told[1]) == split("".join(pieces), opens)


def test_a_mark_that_may_come_is_held_back_and_nothing_else() -> None:
    splitter = Splitter(opens_reasoning=True)
    assert splitter.feed("so </thi") == [Part("reasoning", "so ")]
    assert splitter.feed("s") == [Part("reasoning", "</this")]


def told(*splits: Split | None, text: str = "<think>raw") -> list[tuple[str, str]]:
    splitter = Splitter()
    steps = [Step(request_id="chat", text=text, split=one) for one in splits]
    return [(part.kind, part.text) for part in [*(p for s in steps for p in splitter.add(s)), *splitter.finish()]]


def test_what_the_engine_told_apart_is_taken_as_it_is() -> None:
    assert told(Split("Hm"), Split(), Split(".", "Yes"), Split(answer=", <think>.")) == [
        ("reasoning", "Hm"),
        ("reasoning", "."),
        ("answer", "Yes"),
        ("answer", ", <think>."),
    ]


def test_blank_lines_between_reasoning_and_answer_are_dropped_and_no_others() -> None:
    assert told(Split("Hm.\n"), Split(answer="\n"), Split(answer="\nYes.\n"), Split(answer="\nNo.")) == [
        ("reasoning", "Hm.\n"),
        ("answer", "Yes.\n"),
        ("answer", "\nNo."),
    ]
    assert told(Split(answer="\nYes.")) == [("answer", "\nYes.")]


def test_without_an_engine_that_tells_the_marks_count() -> None:
    assert told(None) == [("reasoning", "raw")]
