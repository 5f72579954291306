"""Reasoning is told apart from the answer, however the text is cut into steps."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speccli.chat.reasoning import Part, Splitter, split


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
