"""Rows under heads: a table where the terminal is wide enough, else each row's values below its name."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

STACKED_BELOW = 50
"""Columns on which a table is read with difficulty, unless all of it fits."""

Cell = str | Text


class Grid:
    """Takes rows, and decides when it is drawn. Nothing is cut: what is too long goes on in the next line."""

    def __init__(self, *heads: str, last_from: int = 0) -> None:
        """The last column is shown on terminals of at least `last_from` columns: it would crowd the others."""
        self._heads, self._last_from = heads, last_from
        self._rows: list[tuple[Cell, ...]] = []

    def add(self, *cells: Cell) -> None:
        self._rows.append(cells)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = options.max_width
        count = max([len(self._heads), *map(len, self._rows)]) - (columns < self._last_from)
        table = self._table(count)
        needed = Measurement.get(console, options.update(max_width=sys.maxsize), table).maximum
        if columns >= STACKED_BELOW or needed <= columns:
            yield table
        else:
            yield from self._stacked(count)

    def _table(self, count: int) -> Table:
        table = Table(
            box=None, padding=(0, 2, 0, 0), show_header=bool(self._heads), header_style="dim", show_edge=False
        )
        for place in range(count):
            table.add_column(self._heads[place] if self._heads else "", overflow="fold")
        for row in self._rows:
            table.add_row(*row[:count])
        return table

    def _stacked(self, count: int) -> Iterator[RenderableType]:
        if self._heads:
            yield Text(self._heads[0], style="dim", end="\n" if self._heads[0] else "")
        for name, *values in self._rows:
            yield Text(str(name), style=name.style if isinstance(name, Text) else "")
            told = [self._told(place, str(value)) for place, value in enumerate(values[: count - 1], 1) if str(value)]
            if told:
                yield Padding(Text(" · ".join(told), overflow="fold"), (0, 0, 0, 2))

    def _told(self, place: int, value: str) -> str:
        return f"{self._heads[place]}: {value}" if self._heads else value
