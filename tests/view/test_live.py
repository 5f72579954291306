"""An answer on a terminal while it comes, drawn step by step without the thread."""

from __future__ import annotations

import itertools
from typing import Literal

import pytest

from speccli.chat.reasoning import Part
from speccli.view.live import LiveAnswer
from speccli.view.markdown import Renderer
from tests.view.screen import Screen


def live(screen: Screen, mode: Literal["show", "fold", "hide"] = "show") -> LiveAnswer:
    ticks = itertools.count()
    return LiveAnswer(
        screen, screen.size, Renderer(None), lambda columns: "status"[:columns], mode, False, lambda: float(next(ticks))
    )


def shown(text: str, screen: Screen, size: int = 3, resize_at: int | None = None) -> Screen:
    """Stream the text in pieces, drawing after each."""
    answer = live(screen)
    for number, start in enumerate(range(0, len(text), size)):
        if number == resize_at:
            screen.resize(screen.columns // 2)
        answer.show([Part("answer", text[start : start + size])])
        answer.draw()
    answer.finish()
    return screen


def test_the_status_line_is_below_while_it_streams_and_gone_at_the_end() -> None:
    screen = Screen()
    answer = live(screen)
    answer.show([Part("answer", "Hello **wor")])
    answer.draw()
    assert screen.text == "Hello wor\nstatus"
    answer.show([Part("answer", "ld**.")])
    answer.finish()
    assert screen.text == "Hello world."
    assert screen.getvalue().endswith("\x1b[?25h")


@pytest.mark.parametrize("size", [2, 7, 1000])
def test_an_answer_higher_than_the_terminal_is_seen_whole_in_the_scrollback(size: int) -> None:
    text = "\n".join(f"line {number}" for number in range(30)) + "\n\n" + "\n".join(f"- item {n}" for n in range(30))
    lines = shown(text, Screen(40, 8), size).text.split("\n")
    assert lines == [*(f"line {number}" for number in range(30)), "", *(f" • item {number}" for number in range(30))]


def test_code_higher_than_the_terminal() -> None:
    code = "\n".join(f"x{number} = {number}" for number in range(25))
    assert shown(f"```python\n{code}\n```\n\nDone.", Screen(40, 6)).text.split("\n") == [
        *(f"  x{number} = {number}" for number in range(25)),
        "",
        "Done.",
    ]


def test_emoji_and_combining_characters_split_over_steps() -> None:
    text = "flag 🇫🇷, family 👩‍👩‍👧, thumb 👍🏽, cafe\u0301, 漢字 " * 3
    screen = shown(text, Screen(30, 8), size=1)
    assert "".join(screen.text.split()) == "".join(text.split())


@pytest.mark.parametrize("resize_at", [1, 10, 25])
def test_a_terminal_made_narrower_in_the_middle_loses_nothing(resize_at: int) -> None:
    words = " ".join(f"word{number}" for number in range(20))
    screen = shown(words, Screen(40, 12), 5, resize_at)
    assert screen.text.replace("\n", " ").split() == words.split()


def test_narrow_terminals() -> None:
    assert shown("A **bold** word and a list:\n\n- one\n- two", Screen(12, 8)).text == (
        "A bold\nword and a\nlist:\n\n • one\n • two"
    )


def test_reasoning_is_shown_before_the_answer() -> None:
    screen = Screen()
    answer = live(screen)
    for part in (Part("reasoning", "Hm.\nSo"), Part("reasoning", " then.\n"), Part("answer", "Yes.")):
        answer.show([part])
        answer.draw()
    answer.finish()
    assert screen.text == "Hm.\nSo then.\n\nYes."


def test_folded_reasoning_leaves_one_line() -> None:
    screen = Screen()
    answer = live(screen, "fold")
    answer.show([Part("reasoning", "\n".join(f"thought {number}" for number in range(9)))])
    answer.draw()
    assert screen.text == "thought 5\nthought 6\nthought 7\nthought 8\nstatus"
    answer.show([Part("answer", "Yes.")])
    answer.finish()
    assert screen.text == "thought for 1.0 s · /think shows it\n\nYes."


def test_hidden_reasoning_leaves_nothing() -> None:
    screen = Screen()
    answer = live(screen, "hide")
    answer.show([Part("reasoning", "Hm."), Part("answer", "Yes.")])
    answer.finish()
    assert screen.text == "Yes."


def test_an_answer_that_never_began_leaves_nothing() -> None:
    screen = Screen()
    answer = live(screen)
    answer.draw()
    answer.finish()
    assert screen.text == ""


def test_a_fault_while_drawing_is_told_in_the_end() -> None:
    def broken(columns: int) -> str:
        raise ZeroDivisionError

    screen = Screen()
    answer = LiveAnswer(screen, screen.size, Renderer(None), broken, "show", False)
    answer.start()
    answer._thread.join()
    with pytest.raises(ZeroDivisionError):
        answer.finish()
