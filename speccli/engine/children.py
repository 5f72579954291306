"""The processes that an engine's start has begun so far, to be ended where it is given up."""

from __future__ import annotations

import multiprocessing


def running() -> frozenset[int | None]:
    """Their process ids."""
    return frozenset(child.pid for child in multiprocessing.active_children())


def kill_since(before: frozenset[int | None]) -> None:
    """Kill those that were not there before: other engines of this process go on."""
    for child in multiprocessing.active_children():
        if child.pid not in before:
            child.kill()
