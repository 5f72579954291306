"""The engine's log: which lines tell the fault, and where output goes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from speccli.engine.log import KEPT_LOGS, child_output_to, new_log, telling_lines

MULTI_PROCESS = """\
(EngineCore pid=12) INFO 11-29 18:42:06 [core.py:133] Initializing a V1 LLM engine
(Worker pid=13) ERROR 11-29 18:42:09 [multiproc_executor.py:870] WorkerProc failed to start.
(Worker pid=13) ERROR 11-29 18:42:09 [multiproc_executor.py:870] Traceback (most recent call last):
(Worker pid=13) ERROR 11-29 18:42:09 [multiproc_executor.py:870]   File "worker.py", line 5, in load
(Worker pid=13) ERROR 11-29 18:42:09 [multiproc_executor.py:870] ValueError: There is no module or parameter named 'd2t'
(EngineCore pid=12) ERROR 11-29 18:42:10 [core.py:1] Traceback (most recent call last):
(EngineCore pid=12) ERROR 11-29 18:42:10 [core.py:1] Exception: WorkerProc initialization failed due to an exception in a background process.
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""


def test_the_root_cause_comes_first_and_wrappers_are_left_out() -> None:
    lines = telling_lines(MULTI_PROCESS)
    assert lines[0] == "ValueError: There is no module or parameter named 'd2t'"
    assert not any("See root cause above" in line for line in lines)


def test_a_fault_told_by_several_processes_is_told_once() -> None:
    assert telling_lines("ValueError: too big\n(Worker pid=3) ValueError: too big\n") == ["ValueError: too big"]


def test_a_log_without_an_exception_gives_its_last_lines() -> None:
    assert telling_lines("one\ntwo\n\nthree\nfour\n") == ["two", "three", "four"]


def test_an_empty_log_gives_nothing() -> None:
    assert telling_lines("") == []


def test_output_of_children_goes_to_the_log_and_our_own_does_not(tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = f"""
import subprocess, sys
from pathlib import Path
from speccli.engine.log import child_output_to
print("before")
with child_output_to(Path({str(log)!r})):
    subprocess.run([sys.executable, "-c", "import sys; print('child out'); print('child err', file=sys.stderr)"])
    print("our own")
    print("our narration", file=sys.stderr)
print("after")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "before\nour own\nafter\n"
    assert done.stderr == "our narration\n"
    assert log.read_text() == "child out\nchild err\n"


def test_descriptors_are_restored_after_an_exception(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    streams = sys.stdout, sys.stderr
    with pytest.raises(RuntimeError), child_output_to(tmp_path / "log"):
        raise RuntimeError
    assert (sys.stdout, sys.stderr) == streams
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_old_logs_are_swept() -> None:
    folder = new_log().parent
    for number in range(KEPT_LOGS + 10):
        (folder / f"engine-2000010{number // 10}-00000{number % 10}-1.log").touch()
    newest = new_log()
    assert len(list(folder.glob("*.log"))) <= KEPT_LOGS + 1
    assert newest.exists()
