"""Rows as a table, or below one another."""

import io

from rich.console import Console
from rich.text import Text

from speccli.view.grid import Grid


def shown(grid: Grid, columns: int) -> list[str]:
    told = io.StringIO()
    Console(file=told, width=columns).print(grid)
    return [line.rstrip() for line in told.getvalue().splitlines()]


def settings() -> Grid:
    grid = Grid("setting", "value", "meaning", last_from=60)
    grid.add(Text("temperature", style="bold"), "0.5", "0 always takes the likeliest token")
    grid.add("seed", "", "sample the same way each time")
    return grid


def test_the_last_column_is_shown_where_there_is_room() -> None:
    assert shown(settings(), 60) == [
        "setting      value  meaning",
        "temperature  0.5    0 always takes the likeliest token",
        "seed                sample the same way each time",
    ]
    assert shown(settings(), 59) == ["setting      value", "temperature  0.5", "seed"]


def test_a_table_that_does_not_fit_a_narrow_terminal_is_stacked() -> None:
    assert shown(settings(), 20) == ["setting      value", "temperature  0.5", "seed"]
    assert shown(settings(), 19) == ["setting", "temperature", "  value: 0.5", "seed"]


def test_without_heads_the_values_stand_alone() -> None:
    grid = Grid()
    grid.add("/help", "this list")
    grid.add("", "")
    grid.add("Ctrl-D", "leave, and end the engine")
    assert shown(grid, 50) == ["/help   this list", "", "Ctrl-D  leave, and end the engine"]
    assert shown(grid, 20) == ["/help", "  this list", "", "Ctrl-D", "  leave, and end the", "  engine"]


def test_a_word_longer_than_its_column_goes_on_below() -> None:
    grid = Grid("a", "b")
    grid.add("x" * 60, "y")
    assert "".join(shown(grid, 50)).count("x") == 60
