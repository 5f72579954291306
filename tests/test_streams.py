"""Streams that are closed or full: one message and an exit code, as a shell starts it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from speccli.errors import ExitCode

COMMANDS = ("profiles list", "profiles show", "profiles path", "doctor --offline", "doctor explain", "pull --dry-run")


def run(line: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
    command = f"{sys.executable} -m speccli {line}"
    return subprocess.run(command, shell=True, capture_output=True, cwd=folder, check=False)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("stdout", "said"),
    [(">&-", "stdout is closed"), (">/dev/full", "stdout cannot be written: No space left on device")],
)
def test_a_stdout_that_takes_nothing_is_this_machines_error(
    command: str, stdout: str, said: str, tmp_path: Path, embedded_default: Path
) -> None:
    done = run(f"{command} {stdout}", tmp_path)
    assert done.returncode == ExitCode.MACHINE
    lines = done.stderr.decode().splitlines()
    assert [line for line in lines if line.startswith("speccli: error: ")] == [f"speccli: error: {said}"]
    assert lines[-1].startswith("hint: ")


@pytest.mark.parametrize("stderr", ["2>&-", "2>/dev/full"])
def test_an_error_that_nobody_reads_leaves_stdout_and_the_exit_code_alone(stderr: str, tmp_path: Path) -> None:
    done = run(f"doctor --log nowhere {stderr}", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (ExitCode.USAGE, b"", b"")


def test_a_closed_stdin_disturbs_nothing(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("Killed\n")
    assert b"crash.killed" in run("doctor --log log --json <&-", tmp_path).stdout
    assert run("doctor --log - <&-", tmp_path).stderr.startswith(b"speccli: error: cannot read stdin: it is closed")


def test_a_file_does_not_take_the_place_of_a_closed_stream(tmp_path: Path) -> None:
    code = (
        "from speccli import streams; import os, sys; streams.prepare(); file = open('kept', 'w'); "
        "os.write(2, b'noise'); file.write('mine'); file.close()"
    )
    subprocess.run(f'{sys.executable} -c "{code}" <&- >&- 2>&-', shell=True, cwd=tmp_path, check=True)
    assert (tmp_path / "kept").read_text() == "mine"


def test_a_reader_that_has_left_is_no_error(tmp_path: Path) -> None:
    done = run("doctor explain | true", tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")
