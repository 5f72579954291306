"""An engine that starts in a thread."""

from __future__ import annotations

import multiprocessing
import signal
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
    assert (starting.is_over, starting.error) == (False, None)
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
    assert str(starting.error) == "no memory"
    starting.close()


def test_an_interrupt_leaves_the_start_running() -> None:
    may_go_on, engine = threading.Event(), ScriptedEngine([])

    def open_engine() -> ScriptedEngine:
        may_go_on.wait()
        return engine

    starting = Starting(open_engine)
    main = threading.get_ident()
    threading.Timer(0.2, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        starting.engine()
    assert not starting.is_over
    threading.Timer(0.2, may_go_on.set).start()
    assert starting.engine() is engine


def test_an_engine_starts_when_the_one_before_has_ended() -> None:
    may_go_on, first, second = threading.Event(), ScriptedEngine([]), ScriptedEngine([])

    def open_first() -> ScriptedEngine:
        may_go_on.wait()
        return first

    def open_second() -> ScriptedEngine:
        assert first.closed
        return second

    starting = Starting(open_second, Starting(open_first))
    assert starting.now() == "first the one before ends"
    may_go_on.set()
    assert starting.engine() is second
    assert not second.closed


def test_what_is_given_up_before_its_turn_is_not_started() -> None:
    may_go_on, opened = threading.Event(), list[str]()

    def open_first() -> ScriptedEngine:
        may_go_on.wait()
        return ScriptedEngine([])

    def open_second() -> ScriptedEngine:
        opened.append("second")
        return ScriptedEngine([])

    starting = Starting(open_second, Starting(open_first))
    threading.Timer(0.2, may_go_on.set).start()
    starting.close()
    assert (starting.is_over, opened) == (True, [])


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
