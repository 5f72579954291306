"""Files of whole records: what a killed run, a full disk and a second run mean for them."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from speccli.errors import ExitCode, MachineError, UsageError
from speccli.jsonl.output import RecordFile, Stream

GOOD = b'{"schema_version":1,"id":"a","text":"x"}\n'
FAILED = b'{"schema_version":1,"id":"b","error":{"kind":"refused","message":"too long"}}\n'
OPENAI = b'{"id":"batch_req_1","custom_id":"c","response":{},"error":null}\n'
OPENAI_FAILED = b'{"id":"batch_req_2","custom_id":"d","response":null,"error":{"code":"refused"}}\n'


def recovered(path: Path) -> tuple[list[tuple[str | int, bool]], int]:
    found: list[tuple[str | int, bool]] = []
    with RecordFile(path) as file:
        torn = file.read(lambda name, is_failure: found.append((name, is_failure)))
        file.cut_off(torn)
    return found, torn


def test_records_of_both_forms_are_known_again(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with RecordFile(path) as file:
        for record in (GOOD, FAILED, OPENAI, OPENAI_FAILED):
            file.write(record)
    assert recovered(path) == ([("a", False), ("b", True), ("c", False), ("d", True)], 0)


@pytest.mark.parametrize("cut", range(1, len(OPENAI)))
def test_a_torn_last_line_is_cut_off_wherever_it_was_torn(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "out"
    path.write_bytes(GOOD + OPENAI[:cut])
    assert recovered(path) == ([("a", False)], cut)
    assert path.read_bytes() == GOOD


def test_the_zeros_that_a_power_failure_leaves_are_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(GOOD + b"\0" * 4096)
    assert recovered(path) == ([("a", False)], 4096)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"precious\n", 1), (b"precious", 1), (GOOD + b"precious\n" + GOOD, 2), (GOOD + b"precious", 2),
        (b'{"name": "somebody else\'s"}\n', 1), (b"\xff\n", 1), (GOOD + b"{\n", 2), (b'{"name": "in one line"}', 1),
        (b'{"custom_id": "a line to answer", "url": "/v1/chat/completions", "body": {}}\n', 1),
    ],
)  # fmt: skip
def test_what_is_no_record_is_refused_and_kept(tmp_path: Path, content: bytes, line: int) -> None:
    path = tmp_path / "out"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=f"out:{line} is no record of speccli batch"):
        recovered(path)
    with RecordFile(path) as file, pytest.raises(UsageError):
        file.drop_failures()
    assert path.read_bytes() == content
    assert [one.name for one in tmp_path.iterdir()] == ["out"]


def test_failures_are_dropped_at_once_and_writing_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(GOOD + FAILED + OPENAI + OPENAI_FAILED + GOOD[:9])
    path.chmod(0o640)
    with RecordFile(path) as file:
        file.drop_failures()
        file.write(GOOD)
    assert path.read_bytes() == GOOD + OPENAI + GOOD
    assert path.stat().st_mode & 0o777 == 0o640
    assert [one.name for one in tmp_path.iterdir()] == ["out"]


def fill(path: Path) -> None:
    """Write records until the file may grow no more: to a process that is what a full disk is."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
    with RecordFile(path) as file:
        try:
            for _ in range(5):
                file.write(GOOD)
        except MachineError as error:
            sys.exit(f"{error.exit_code} {error.message}")


def test_a_record_that_does_not_fit_is_cut_back_and_said(tmp_path: Path) -> None:
    path = tmp_path / "out"
    done = subprocess.run(
        [sys.executable, "-c", f"from pathlib import Path; from tests.jsonl.test_output import fill; fill(Path({str(path)!r}))"],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.stderr.strip() == f"{ExitCode.MACHINE} cannot write {path}: File too large"
    assert path.read_bytes() == GOOD * 2


def test_a_full_device_is_said(tmp_path: Path) -> None:
    stream = Stream(os.open("/dev/full", os.O_WRONLY), "/dev/full")
    with pytest.raises(MachineError, match="cannot write /dev/full: No space left on device"):
        stream.write(GOOD)
    stream.close()


def hold(path: Path, is_held: multiprocessing.synchronize.Event) -> None:
    with RecordFile(path):
        is_held.set()
        signal.pause()


def test_a_second_run_on_the_same_output_is_refused_until_the_first_has_ended_however_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "out"
    context = multiprocessing.get_context("spawn")
    is_held = context.Event()
    other = context.Process(target=hold, args=(path, is_held))
    other.start()
    assert is_held.wait(60)
    with pytest.raises(UsageError, match=f"another run is writing {path}"):
        RecordFile(path)
    other.kill()
    other.join()
    RecordFile(path).close()


def test_the_lock_survives_reading_and_replacing_the_file(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(GOOD + FAILED)
    with RecordFile(path) as file:
        file.read(lambda name, is_failure: None)
        file.drop_failures()
        code = f"from pathlib import Path; from speccli.jsonl.output import RecordFile; RecordFile(Path({str(path)!r}))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "another run is writing" in done.stderr


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "no" / "out", tmp_path):
        with pytest.raises(UsageError, match=f"cannot write {path}: "):
            RecordFile(path)


def test_a_record_waits_for_a_reader_of_a_pipe_that_does_not_block() -> None:
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    record = b"x" * 2**20 + b"\n"
    read = bytearray()

    def reader() -> None:
        while part := os.read(ours, 2**16):
            time.sleep(0.0005)
            read.extend(part)

    thread = threading.Thread(target=reader)
    thread.start()
    stream = Stream(theirs, "stdout")
    stream.write(record)
    stream.close()
    thread.join()
    os.close(ours)
    assert read == record


@pytest.mark.parametrize("further", ["", "file.drop_failures();"])
def test_no_file_takes_the_place_of_a_closed_stdout(tmp_path: Path, further: str) -> None:
    code = (
        "import os; os.close(1); from pathlib import Path; from speccli.jsonl.output import RecordFile;"
        f"file = RecordFile(Path({str(tmp_path / 'out')!r})); {further} os.write(1, b'noise')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "Bad file descriptor" in done.stderr
    assert (tmp_path / "out").read_bytes() == b""
