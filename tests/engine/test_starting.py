"""An engine that starts in a thread."""

from __future__ import annotations

import multiprocessing
import threading
import time

import pytest

from speccli.engine.scripted import ScriptedEngine
from speccli.engine.starting import Starting
from speccli.errors import EngineFailed


def test_the_engine_is_waited_for_and_closed() -> None:
    may_go_on, engine = threading.Event(), ScriptedEngine([])

    def open_engine() -> ScriptedEngine:
        may_go_on.wait()
        return engine

    starting = Starting(open_engine)
    assert (starting.is_over, starting.has_failed) == (False, False)
    may_go_on.set()
    assert starting.engine() is engine
    starting.close()
    assert engine.closed


def test_what_the_start_raises_is_raised_where_it_is_waited_for() -> None:
    def open_engine() -> ScriptedEngine:
        raise EngineFailed("no memory")

    starting = Starting(open_engine)
    with pytest.raises(EngineFailed, match="no memory"):
        starting.engine()
    assert starting.has_failed
    starting.close()


def test_a_start_given_up_is_waited_for_until_its_engine_can_be_closed() -> None:
    may_go_on, engine = threading.Event(), ScriptedEngine([])

    def open_engine() -> ScriptedEngine:
        may_go_on.wait()
        return engine

    starting = Starting(open_engine)
    threading.Timer(0.3, may_go_on.set).start()
    starting.close()
    assert engine.closed


def test_a_start_given_up_ends_the_processes_that_it_began_and_no_others() -> None:
    context = multiprocessing.get_context("spawn")
    older = context.Process(target=time.sleep, args=(60,))
    older.start()
    begun: list[multiprocessing.process.BaseProcess] = []

    def open_engine() -> ScriptedEngine:
        newer = context.Process(target=time.sleep, args=(60,))
        newer.start()
        begun.append(newer)
        newer.join()
        raise EngineFailed("its process has ended")

    starting = Starting(open_engine)
    while not begun:
        time.sleep(0.01)
    starting.close()
    assert (older.is_alive(), begun[0].is_alive()) == (True, False)
    older.kill()
    older.join()
