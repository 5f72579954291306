"""What tables say of two answers."""

import io

import pytest
from rich.console import Console, RenderableType

from speccli.chat.comparison import Comparison
from speccli.chat.settings import ChatSettings
from speccli.chat.totals import total
from speccli.profile import Profile, Settings
from speccli.view import tables
from tests.chat.examples import NGRAM, PLAIN, SEA, step, turn


@pytest.mark.parametrize(
    ("is_sampled", "why"),
    [
        (True, "both were sampled, so chance alone makes them differ: /set temperature 0"),
        (
            False,
            "several tokens at once are rounded otherwise, so a near tie may fall the other way; with dtype float32 that is rare",
        ),
    ],
)
def test_where_answers_part_the_likely_reason_is_said(is_sampled: bool, why: str) -> None:
    other = turn(step("The", token_ids=(10,)), step(" ocean", token_ids=(77,)), run=PLAIN)
    told = io.StringIO()
    compared = Comparison(turn(*SEA), other, is_sampled=is_sampled)
    Console(file=told, width=300).print(tables.comparison(compared, 300))
    assert f"the first token that differs is number 2: ' sea' against ' ocean'; {why}" in told.getvalue()


def shown(renderable: RenderableType, columns: int) -> str:
    told = io.StringIO()
    Console(file=told, width=columns).print(renderable)
    return told.getvalue()


def test_one_is_told_as_one() -> None:
    once = turn(step("The", at_s=10.5), step(" sea", at_s=11.0, drafted=1, accepted=0, finish_reason="stop"))
    assert "1 step had nothing drafted" in shown(tables.stats(once, total([once]), None), 100)
    first, other = (turn(step("The", token_ids=(10,)), run=run) for run in (NGRAM, PLAIN))
    assert "the same 1 token\n" in shown(tables.comparison(Comparison(first, other), 100), 100).replace(" \n", "\n")


@pytest.mark.parametrize("columns", [20, 24, 40, 49, 60, 79, 120])
def test_nothing_is_cut_however_narrow_the_terminal_is(columns: int) -> None:
    rows = ChatSettings().with_value("stop", "END", False).rows(Profile(Settings(), {}))
    settings = shown(tables.settings_table(rows), columns)
    told = shown(tables.stats(turn(*SEA), total([turn(*SEA), turn(*SEA)]), 10.0), columns)
    for words in (settings, told, shown(tables.help_table(), columns)):
        assert max(len(line.rstrip()) for line in words.splitlines()) <= columns
    assert "…" not in settings + told
    assert ("sample the same way each time" in settings) is (columns >= 80)
    for word in ("repetition_penalty", "END"):
        assert word in settings
    assert [word in " ".join(told.split()) for word in ("mean acceptance length", "2.00", "33.3%")] == [True] * 3
