"""Which ids the output has already, and which this run has met, in memory that does not grow with them.

They are in a temporary file of SQLite's. Most ids are new, which a filter of fixed size tells without asking it.
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections.abc import Iterator
from typing import NamedTuple

from speccli.errors import MachineError

CACHE_KIB = 16 * 1024
"""What SQLite keeps of it in memory."""

FILTER_BYTES = 2**24
"""Good for some ten million ids; with more, SQLite is asked more often."""

MAX_KEY_CHARS = 64

SHIFTS = (0, 18, 36)
"""Where in a hash of 64 bits each of the filter's positions begins."""

PENDING = 1000
"""Rows that are written at once: one by one they cost ten times as much."""


class Known(NamedTuple):
    """What is known of an id."""

    is_written: bool
    has_failed: bool
    met_at: str | None
    """FILE:LINE where this run met it; None: not yet."""


UNKNOWN = Known(False, False, None)


class Ids:
    """A table of ids. It is gone with the process."""

    def __init__(self) -> None:
        self._table = sqlite3.connect("", isolation_level=None)
        with _told():
            self._table.executescript(
                f"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -{CACHE_KIB};"
                "CREATE TABLE written (key TEXT PRIMARY KEY, failed INTEGER) WITHOUT ROWID;"
                "CREATE TABLE met (key TEXT PRIMARY KEY, place TEXT) WITHOUT ROWID; BEGIN"
            )
        self._may_be_written, self._may_be_met = _Filter(), _Filter()
        self._written: list[tuple[str, bool]] = []
        self._met: list[tuple[str, str]] = []

    def add_written(self, name: str | int, has_failed: bool) -> None:
        """The output has a record of this id."""
        key = _key(name)
        self._may_be_written.add(key)
        self._written.append((key, has_failed))
        if len(self._written) >= PENDING:
            self._flush()

    def look_up(self, name: str | int) -> Known:
        self._flush()
        key = _key(name)
        with _told():
            place = self._table.execute("SELECT place FROM met WHERE key = ?", (key,)).fetchone()
        return self._known(key, None if place is None else place[0])

    def meet(self, name: str | int, place: str) -> Known:
        """What was known of this id before the line at this place; the place is noted."""
        key = _key(name)
        if self._may_be_met.add(key):
            known = self.look_up(name)
        elif self._may_be_written.has(key):
            known = self._known(key, None)
        else:
            known = UNKNOWN
        if known.met_at is None:
            self._met.append((key, place))
            if len(self._met) >= PENDING:
                self._flush()
        return known

    def close(self) -> None:
        self._table.close()

    def _known(self, key: str, met_at: str | None) -> Known:
        if self._written:
            self._flush()
        with _told():
            failed = self._table.execute("SELECT failed FROM written WHERE key = ?", (key,)).fetchone()
        return Known(failed is not None, bool(failed and failed[0]), met_at)

    def _flush(self) -> None:
        with _told():
            self._table.executemany("INSERT OR IGNORE INTO written VALUES (?, ?)", self._written)
            self._table.executemany("INSERT OR IGNORE INTO met VALUES (?, ?)", self._met)
        self._written.clear()
        self._met.clear()


class _Filter:
    """A Bloom filter: says of a key that it is new, or that it may have been added before."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def add(self, key: str) -> bool:
        """Add the key; whether it may be there already."""
        if not self._bytes:
            self._bytes = bytearray(FILTER_BYTES)
        cells, may_be_there, bits = self._bytes, True, hash(key)
        for shift in SHIFTS:
            position = bits >> shift
            place, bit = (position >> 3) % FILTER_BYTES, 1 << (position & 7)
            if not cells[place] & bit:
                cells[place] |= bit
                may_be_there = False
        return may_be_there

    def has(self, key: str) -> bool:
        """Whether the key may be there."""
        bits = hash(key)
        return bool(self._bytes) and all(
            self._bytes[(bits >> shift >> 3) % FILTER_BYTES] & 1 << (bits >> shift & 7) for shift in SHIFTS
        )


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """SQLite's trouble with its file, in words."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise MachineError(
            f"cannot keep the ids of the lines in a temporary file: {error}",
            "make room in the temporary folder, or name another: SQLITE_TMPDIR=FOLDER",
        ) from error


def _key(name: str | int) -> str:
    """7 and "7" are the same id: OpenAI's form writes both as a string. A long one is kept as its digest."""
    text = str(name)
    if len(text) <= MAX_KEY_CHARS:
        return text
    return "\0" + hashlib.blake2b(text.encode(), digest_size=32).hexdigest()
