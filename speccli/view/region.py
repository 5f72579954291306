"""Region: lines at the bottom of the terminal that can be written again; what is above them stays."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TextIO

Size = Callable[[], tuple[int, int]]
"""Columns and rows of the terminal."""

_ESCAPES = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|\][^\x07\x1b]*(\x07|\x1b\\))")

SYNCHRONISED, DONE = "\x1b[?2026h", "\x1b[?2026l"
"""Terminals that know them show what is between at once."""

NO_WRAP, WRAP = "\x1b[?7l", "\x1b[?7h"
"""A line that the terminal thinks wider than we do is cut, and not wrapped: the count of rows stays right."""

HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"


class Region:
    """Writes only what changed. Its lines must be no wider than the terminal, and fewer than it has rows."""

    def __init__(self, out: TextIO, size: Size) -> None:
        self._out = out
        self._size = size
        self._shown: list[str] = []
        self._columns = size()[0]

    def draw(self, lines: Sequence[str], num_final: int = 0) -> None:
        """Show these lines. The first `num_final` are let go: they scroll up with the rest of the terminal."""
        columns = self._size()[0]
        same = _num_same(self._shown, lines) if columns == self._columns else 0
        if same == len(lines) == len(self._shown) and not num_final:
            return
        same = max(0, min(same, len(lines) - 1, len(self._shown)))
        parts = [SYNCHRONISED, self._to_row(same, columns)]
        for place in range(same, len(lines)):
            parts += [
                "" if place == same else "\r\n",
                "" if place < num_final else NO_WRAP,
                lines[place],
                WRAP,
                "\x1b[K",
            ]
        if len(self._shown) > len(lines) or columns != self._columns:
            parts.append("\x1b[J")
        self._columns = columns
        self._shown = list(lines[num_final:])
        if lines and not self._shown:
            parts.append("\r\n")
        self._write([*parts, DONE])

    def _to_row(self, row: int, columns: int) -> str:
        """The cursor stands at the end of the last line."""
        if row >= len(self._shown):
            return "\r\n" if self._shown else "\r"
        if columns == self._columns:
            up = len(self._shown) - 1 - row
        else:  # the terminal has broken lines that were wider than it is now
            up = sum(max(1, -(-_cells(line) // columns)) for line in self._shown) - 1
        return "\r" + (f"\x1b[{up}A" if up else "") + ("\x1b[J" if columns != self._columns else "")

    def _write(self, parts: list[str]) -> None:
        self._out.write("".join(parts))
        self._out.flush()


def _num_same(one: Sequence[str], other: Sequence[str]) -> int:
    pairs = zip(one, other, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _cells(line: str) -> int:
    from rich.cells import cell_len

    return cell_len(_ESCAPES.sub("", line))
