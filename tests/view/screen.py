"""A terminal in miniature: rows, a scrollback, and the few escape sequences that the view uses."""

from __future__ import annotations

import io
import re

from rich.cells import cell_len

_PIECE = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])|(\r)|(\n)|([^\x1b\r\n])", re.DOTALL)


class Screen(io.StringIO):
    """What is written to it is seen in `lines`: the scrollback first, then the rows that are left on the screen."""

    def __init__(self, columns: int = 40, rows: int = 10) -> None:
        super().__init__()
        self.columns, self.rows = columns, rows
        self._past: list[str] = []
        self._cells: list[list[str]] = [[]]
        self._row = self._column = 0
        self._wraps = True

    @property
    def lines(self) -> list[str]:
        return [*self._past, *("".join(row).rstrip() for row in self._cells)]

    @property
    def text(self) -> str:
        return "\n".join(self.lines).rstrip()

    def size(self) -> tuple[int, int]:
        return self.columns, self.rows

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        for match in _PIECE.finditer(text):
            private, numbers, letter, carriage, newline, character = match.groups()
            if carriage:
                self._column = 0
            elif newline:  # a terminal's driver makes it a carriage return and a line feed
                self._column = 0
                self._down()
            elif character:
                self._put(character)
            else:
                self._obey(private, numbers, letter)
        return super().write(text)

    def resize(self, columns: int) -> None:
        """Break the rows anew, as most terminals do; the cursor stays behind its character."""
        broken: list[list[str]] = []
        for number, row in enumerate(self._cells):
            while len(row) > columns:
                broken.append(row[:columns])
                row = row[columns:]
            broken.append(row)
            if number == self._row:
                self._row_after, self._column = len(broken) - 1, min(self._column, len(row))
        self._cells, self._row, self.columns = broken, self._row_after, columns
        self._scroll()

    def _put(self, character: str) -> None:
        width = cell_len(character)
        if width == 0:
            self._cells[self._row][max(0, self._column - 1)] += character
            return
        if self._column + width > self.columns:
            if self._wraps:
                self._down()
                self._column = 0
            else:
                self._column = self.columns - width
        row = self._cells[self._row]
        row += [" "] * (self._column + width - len(row))
        row[self._column : self._column + width] = [character, *[""] * (width - 1)]
        self._column += width

    def _down(self) -> None:
        self._row += 1
        if self._row == len(self._cells):
            self._cells.append([])
        self._scroll()

    def _scroll(self) -> None:
        while len(self._cells) > self.rows:
            self._past.append("".join(self._cells.pop(0)).rstrip())
            self._row -= 1

    def _obey(self, private: str, numbers: str, letter: str) -> None:
        if private and numbers == "7":
            self._wraps = letter == "h"
        elif letter == "A":
            self._row = max(0, self._row - int(numbers or 1))
        elif letter == "K":
            del self._cells[self._row][self._column :]
        elif letter == "J":
            del self._cells[self._row][self._column :]
            del self._cells[self._row + 1 :]
        elif letter not in "mhl":
            raise AssertionError(f"the screen does not know {letter}")
