"""Interval: a number of which only the two ends are known."""

from __future__ import annotations

import msgspec

GIB = 1024**3
MIB = 1024**2


class Interval(msgspec.Struct, frozen=True):
    """Bytes, or tokens, from the optimistic `low` to the pessimistic `high`, or the other way round where more is better."""

    low: int
    high: int

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.low + other.low, self.high + other.high)

    @property
    def middle(self) -> int:
        return (self.low + self.high) // 2


NOTHING = Interval(0, 0)


def exactly(value: int) -> Interval:
    return Interval(value, value)


def about(value: float, less: float, more: float) -> Interval:
    """Shares of the value: 0.01 is one percent."""
    return Interval(int(value * (1 - less)), int(value * (1 + more)))


def gib(low: float, high: float) -> Interval:
    return Interval(int(low * GIB), int(high * GIB))
