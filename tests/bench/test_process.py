"""The process that measures: what it tells, how it ends, and that it never outlives whoever started it."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import msgspec
import psutil
import pytest

from speccli.bench import process
from speccli.bench.cells import Cell, Event, Failed, Finished, Job, Ready
from speccli.bench.child import perform
from speccli.engine.scripted import Dies, ScriptedEngine, Wrote
from speccli.errors import EngineFailed, MachineError
from speccli.plan import Plan
from speccli.profile import Settings
from tests.bench.example import plan_of, prompt, results

ENOUGH_S = 20.0


def job(*cells: Cell) -> Job:
    return Job(plan_of(Settings(method="ngram")), (prompt("a"), prompt("b", "code")), cells)


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_a_job_and_events_survive_the_way_through_json() -> None:
    told = job(Cell(1, 1), Cell(2, 4))
    assert msgspec.json.decode(msgspec.json.encode(told), type=Job) == told
    for event in (Ready(1.5), Finished(results(1.0)[0]), Failed("no", "yes")):
        assert msgspec.json.decode(msgspec.json.encode(event), type=Event) == event


def test_it_starts_one_engine_warms_it_up_and_measures_every_cell() -> None:
    asked: list[str] = []
    engine = ScriptedEngine(lambda request: [Wrote(asked.append(request.id) or "x")], max_in_flight=4)  # type: ignore[func-returns-value]
    events = list(perform(job(Cell(1, 1), Cell(1, 2)), lambda plan: engine))
    assert [type(event) for event in events] == [Ready, Finished, Finished]
    assert [event.result.cell for event in events if isinstance(event, Finished)] == [Cell(1, 1), Cell(1, 2)]
    assert len(asked) == 2 + 2 + 2 + 8, "warm-up of both batch sizes, then two prompts, then each of them four times"
    assert engine.closed


def test_an_engine_that_does_not_start_or_dies_is_told() -> None:
    def missing(plan: Plan) -> ScriptedEngine:
        raise MachineError("vLLM cannot be imported", "install it")

    assert list(perform(job(Cell(1, 1)), missing)) == [Failed("vLLM cannot be imported", "install it")]
    dying = ScriptedEngine([[Wrote("a")], [Wrote("b")], [Wrote("c")], [Dies("out of memory")]])
    assert list(perform(job(Cell(1, 1)), lambda plan: dying))[1:] == [Failed("the engine died:\n  out of memory")]

    def logged(plan: Plan) -> ScriptedEngine:
        raise EngineFailed("the engine did not start", log=Path("/logs/engine.log"))

    assert list(perform(job(Cell(1, 1)), logged)) == [Failed("the engine did not start", log="/logs/engine.log")]


def test_what_the_process_tells_comes_as_events() -> None:
    code = 'import sys; print(sys.stdin.readline().startswith(\'{"plan"\'), file=sys.stderr); print(\'{"event": "ready", "start_s": 2.5}\')'
    assert list(process.run(job(), python(code))) == [Ready(2.5)]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise SystemExit(3)", "its process ended with exit code 3"),
        ("import os; os.kill(os.getpid(), 9)", "its process ended with SIGKILL, as it does when memory is short"),
        ("import os; os.kill(os.getpid(), 15)", "its process ended with SIGTERM"),
    ],
)
def test_a_process_that_dies_is_a_failure_with_its_cause(code: str, said: str) -> None:
    [event] = process.run(job(), python(code))
    assert isinstance(event, Failed)
    assert event.message == said


def test_leaving_early_ends_the_process_and_what_it_started() -> None:
    code = (
        "import subprocess, sys, threading; from speccli.bench import child; sys.stdin.readline()\n"
        "other = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)'])\n"
        'print(\'{"event": "ready", "start_s": %d}\' % other.pid, flush=True)\n'
        "child._end_with_stdin()"
    )
    events = process.run(job(), python(code))
    first = next(events)
    assert isinstance(first, Ready)
    started = psutil.Process(int(first.start_s))
    started_s = time.monotonic()
    events.close()  # type: ignore[attr-defined]
    assert time.monotonic() - started_s < ENOUGH_S
    psutil.wait_procs([started], timeout=ENOUGH_S)
    assert not started.is_running()


def test_a_killed_parent_takes_the_process_along() -> None:
    child = "from speccli.bench import child; import os; print(os.getpid(), flush=True); child._end_with_stdin()"
    parent = (
        "import subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', {child!r}], stdin=subprocess.PIPE)\n"
        "time.sleep(300)"
    )
    with subprocess.Popen(python(parent), stdout=subprocess.PIPE) as first:
        assert first.stdout is not None
        measuring = psutil.Process(int(first.stdout.readline()))
        first.kill()
        psutil.wait_procs([measuring], timeout=ENOUGH_S)
        assert not measuring.is_running()


def test_stray_output_does_not_reach_the_channel() -> None:
    code = (
        "import sys; from speccli.bench import child; sys.stdin.readline()\n"
        "with child._channel() as channel:\n"
        "    print('a library says something', flush=True)\n"
        '    channel.write(b\'{"event": "failed", "message": "told"}\\n\')'
    )
    assert list(process.run(job(), python(code))) == [Failed("told")]
