"""How long the rest takes."""

import pytest

from speccli.bench.cells import Cell
from speccli.bench.pace import left_s, said
from tests.bench import example


def test_the_rest_takes_as_long_as_what_was_measured_at_the_same_batch_size() -> None:
    measured = example.results(1.0, 2.0)
    assert left_s(measured, [Cell(3, 1), Cell(1, 4)]) == 20.0
    assert left_s([], [Cell(1, 1)]) is None


@pytest.mark.parametrize(("seconds", "text"), [(42.4, "42 s"), (150.0, "2 min"), (7200.0, "2.0 h")])
def test_it_is_said_in_the_unit_that_suits(seconds: float, text: str) -> None:
    assert said(seconds) == text
