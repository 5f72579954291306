"""Ids that were written and met, beside a plain dictionary."""

from __future__ import annotations

from collections import deque
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speccli.errors import MachineError
from speccli.jsonl import ids
from speccli.jsonl.ids import UNKNOWN, Ids, Known

NAMES = st.one_of(
    st.integers(-3, 30),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=2),
    st.sampled_from(["x" * 1000, "in.jsonl:1", "7"]),
)


@given(st.lists(st.tuples(NAMES, st.booleans()), max_size=20), st.lists(NAMES, max_size=60))
def test_a_table_knows_what_a_dictionary_knows(written: list[tuple[str | int, bool]], met: list[str | int]) -> None:
    expected: dict[str, Known] = {}
    with closing(Ids()) as table:
        for name, has_failed in written:
            table.add_written(name, has_failed)
            expected.setdefault(str(name), Known(True, has_failed, None))
        for number, name in enumerate(met):
            known = expected.get(str(name), UNKNOWN)
            assert table.meet(name, f"in:{number}") == known
            expected[str(name)] = known._replace(met_at=known.met_at or f"in:{number}")
        for name, known in expected.items():
            assert table.look_up(name) == known


def test_it_is_right_with_a_filter_that_is_full_and_rows_that_were_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ids, "FILTER_BYTES", 8)
    with closing(Ids()) as table:
        for number in range(3000):
            assert table.meet(f"row {number}", str(number)) == UNKNOWN
        for number in range(3000):
            assert table.meet(f"row {number}", "again") == Known(False, False, str(number))


def test_a_temporary_folder_that_is_full_is_said_with_the_variable_that_names_another() -> None:
    with closing(Ids()) as table:
        table._table.execute("PRAGMA max_page_count = 4")
        with pytest.raises(MachineError, match="database or disk is full") as caught:
            deque(table.meet("x" * 60 + str(number), "in:1") for number in range(5000))
        assert "SQLITE_TMPDIR" in caught.value.hint
