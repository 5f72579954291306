"""The engine's log: where it lies, and where output goes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from speccli.engine.log import KEPT_LOGS, child_output_to, last_log, new_log


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


@pytest.mark.parametrize("closed", ["1>&-", "2>&-", "1>&- 2>&-"])
def test_a_stream_that_is_closed_stays_so(closed: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = f"""
import os
from pathlib import Path
from speccli import streams
from speccli.engine.log import child_output_to
streams.prepare()
with child_output_to(Path({str(log)!r})):
    os.system("echo child")
"""
    file = tmp_path / "run.py"
    file.write_text(code)
    done = subprocess.run(f"{sys.executable} {file} {closed}", shell=True, check=False, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert log.read_text() == "child\n"


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


def test_the_last_log_is_the_one_written_to_last() -> None:
    assert last_log() is None
    first = new_log()
    second = first.with_name("engine-20000101-000000-1.log")
    second.touch()
    os.utime(first, (1, 1))
    assert last_log() == second
