"""What tables say of two answers."""

import io

import pytest
from rich.console import Console

from speccli.chat.comparison import Comparison
from speccli.view import tables
from tests.chat.examples import PLAIN, SEA, step, turn


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
