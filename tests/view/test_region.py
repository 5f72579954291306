"""Lines that are written again: what the terminal shows is what was drawn, whatever was there before."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speccli.view.region import Region
from tests.view.screen import Screen


def drawn(*states: list[str], columns: int = 20, rows: int = 6) -> Screen:
    screen = Screen(columns, rows)
    region = Region(screen, screen.size)
    for state in states:
        region.draw(state)
    return screen


@pytest.mark.parametrize(
    "states",
    [
        [["one"]],
        [["one"], ["one", "two"]],
        [["one", "two"], ["one"]],
        [["one", "two", "three"], ["one", "2", "three"]],
        [["one", "two"], []],
        [["long line"], ["short"]],
        [[], ["one"]],
        [["one", "two"], ["one", "two"]],
        [["a", "b", "c"], ["b", "c"], ["b", "c", "d", "e"]],
    ],
)
def test_the_last_state_is_what_is_seen(states: list[list[str]]) -> None:
    assert drawn(*states).text == "\n".join(states[-1])


LINES = st.lists(st.text("ab漢é👍 ", max_size=8).map(str.rstrip), max_size=5)


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(LINES, LINES), max_size=8))
def test_final_lines_stay_above_and_in_order(states: list[tuple[list[str], list[str]]]) -> None:
    screen = Screen(20, 6)
    region = Region(screen, screen.size)
    final: list[str] = []
    for added, live in states:
        region.draw([*added, *live], len(added))
        final += added
    live = states[-1][1] if states else []
    assert screen.text == "\n".join([*final, *live]).rstrip()


def test_what_did_not_change_is_not_written_again() -> None:
    screen = Screen()
    region = Region(screen, screen.size)
    region.draw(["a long first line", "second"])
    before = len(screen.getvalue())
    region.draw(["a long first line", "third"])
    assert "first" not in screen.getvalue()[before:]
    before = len(screen.getvalue())
    region.draw(["a long first line", "third"])
    assert len(screen.getvalue()) == before


def test_a_line_that_the_terminal_thinks_too_wide_is_cut_and_garbles_nothing() -> None:
    wide = "x" * 25
    assert drawn([wide, "status 1"], [wide, "status 2"]).text == f"{'x' * 20}\nstatus 2"


def test_a_narrower_terminal_breaks_the_old_lines_and_they_are_found_again() -> None:
    screen = Screen(20, 10)
    region = Region(screen, screen.size)
    region.draw(["final", "0123456789abcdef", "status"], 1)
    screen.resize(10)
    region.draw(["0123456789", "abcdef", "status"])
    assert screen.text == "final\n0123456789\nabcdef\nstatus"


def test_a_wider_terminal() -> None:
    screen = Screen(10, 10)
    region = Region(screen, screen.size)
    region.draw(["final", "0123456789", "abcdef"], 1)
    screen.resize(20)
    region.draw(["0123456789abcdef"])
    assert screen.text == "final\n0123456789abcdef"
