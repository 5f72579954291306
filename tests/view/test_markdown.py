"""Markdown while it grows."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speccli.view.markdown import MarkdownFlow, Renderer, completed

PLAIN = Renderer(None)

DOCUMENT = """# A title

Some *text* with `code`
and a second line.

1. One
2. Two
   - inner

```python
def f(x):
    return x <b>
```

| a | b |
|---|---|
| 漢字 | 👍🏽 |

> quoted

The <end>.
"""

RENDERED = """A title

Some text with code
and a second line.

 1 One
 2 Two
    • inner

  def f(x):
      return x <b>

a     b
────────
漢字  👍🏽

▌ quoted

The <end>."""


def final_lines(*pieces: str, columns: int = 40) -> list[str]:
    """What is final in the end, however the text comes."""
    flow = MarkdownFlow(PLAIN)
    lines: list[str] = []
    for piece in pieces:
        flow.add(piece)
        lines += flow.take(columns)[0]
    return lines + flow.take(columns, is_over=True)[0]


def test_a_document_is_rendered_with_nothing_left_out() -> None:
    assert "\n".join(final_lines(DOCUMENT)) == RENDERED


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, len(DOCUMENT)), max_size=30))
def test_how_the_text_is_cut_does_not_matter(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(DOCUMENT)]
    pieces = [DOCUMENT[start:end] for start, end in itertools.pairwise(edges)]
    assert final_lines(*pieces) == final_lines(DOCUMENT)


@pytest.mark.parametrize("separator", ["\u2028", "\x0c", "\x85", "\x0b", "\x1c"])
def test_only_a_newline_ends_a_line(separator: str) -> None:
    pieces = ["# Title\n\n", f"```\na{separator}b\nc", f"{separator}d\n```\n\nText **bo", "ld**.\n\nThe en", "d.\n"]
    assert final_lines(*pieces) == final_lines("".join(pieces))
    assert final_lines(*pieces)[-3:] == ["Text bold.", "", "The end."]


def test_finished_blocks_are_final_and_the_last_one_is_not() -> None:
    flow = MarkdownFlow(PLAIN)
    flow.add("First.\n\nSec")
    assert flow.take(40) == (["First."], ["", "Sec"])
    flow.add("ond.")
    assert flow.take(40) == ([], ["", "Second."])
    assert flow.take(40, is_over=True) == (["", "Second."], [])


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("so **bold", "so **bold**"),
        ("so **bold ", "so **bold** "),
        ("so **", "so "),
        ("so **bold*", "so **bold**"),
        ("so **bold**", "so **bold**"),
        ("call `f(x", "call `f(x`"),
        ("call `", "call "),
        ("`**` and", "`**` and"),
        ("text\n``", "text"),
        ("```python\nx = '`'", "```python\nx = '`'"),
        ("done **one**\n\nnow **two", "done **one**\n\nnow **two**"),
        ("", ""),
    ],
)
def test_open_marks_are_closed_until_they_are(source: str, shown: str) -> None:
    assert completed(source) == shown


def test_no_line_is_wider_than_it_may_be() -> None:
    from rich.cells import cell_len

    for columns in (12, 20, 38, 78):
        lines = final_lines(DOCUMENT + "\n" + "long " * 40 + "\n\n" + "漢" * 60, columns=columns)
        assert max(cell_len(line) for line in lines) <= columns


def test_colours_come_only_where_they_are_wanted() -> None:
    assert "\x1b" not in "".join(final_lines(DOCUMENT))
    assert any("\x1b[" in line for line in Renderer("standard").lines("**bold**", 40))
