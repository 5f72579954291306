"""A batch in a process of its own: killed, terminated, interrupted, out of room, with a reader that leaves."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from speccli.errors import ExitCode

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "tests.commands.scripted_batch"]


def start(folder: Path, *arguments: str, step_s: float = 0.0, **named: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*COMMAND, str(step_s), "batch", *arguments], cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, **named,
    )  # fmt: skip


def end(process: subprocess.Popen[bytes]) -> tuple[int, bytes, str]:
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err.decode()


def run(folder: Path, *arguments: str, **named: Any) -> tuple[int, bytes, str]:
    return end(start(folder, *arguments, **named))


def write_input(folder: Path, count: int) -> None:
    lines = [
        json.dumps({"id": f"q{i}", "prompt": "refuse" if i % 10 == 3 else f"prompt {i} " + "x" * (i % 50)})
        for i in range(count)
    ]
    (folder / "in.jsonl").write_text("\n".join([*lines, "bad", lines[0]]) + "\n")


def records(file: Path) -> dict[str, Any]:
    found = [json.loads(line) for line in file.read_bytes().splitlines()]
    for record in found:
        record.pop("timings", None)
    by_id = {record["id"]: record for record in found}
    assert len(by_id) == len(found), "an id is written twice"
    return by_id


def wait_for(file: Path, size: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 60
    while not (file.exists() and file.stat().st_size >= size) and process.poll() is None:
        assert time.monotonic() < until
        time.sleep(0.001)


def test_kill_9_at_random_moments_loses_nothing_and_writes_nothing_twice(tmp_path: Path) -> None:
    write_input(tmp_path, 300)
    assert run(tmp_path, "in.jsonl", "-o", "whole.jsonl")[0] == ExitCode.FINDINGS
    out, chance = tmp_path / "out.jsonl", random.Random(1)
    kills = 0
    for _ in range(5):
        process = start(tmp_path, "in.jsonl", "-o", "out.jsonl", step_s=0.002)
        wait_for(out, (out.stat().st_size if out.exists() else 0) + chance.randrange(9000), process)
        process.kill()
        kills += end(process)[0] == -signal.SIGKILL
    code, _, said = run(tmp_path, "in.jsonl", "-o", "out.jsonl")
    assert kills >= 2
    assert code == ExitCode.FINDINGS
    assert "resuming: " in said
    assert records(out) == records(tmp_path / "whole.jsonl")
    assert len(records(out)) == 302


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGINT, ExitCode.INTERRUPTED)]
)
def test_a_signal_leaves_whole_records_and_says_how_to_go_on(tmp_path: Path, number: int, code: int) -> None:
    write_input(tmp_path, 100)
    process = start(tmp_path, "in.jsonl", "-o", "out.jsonl", step_s=0.01)
    wait_for(tmp_path / "out.jsonl", 2000, process)
    process.send_signal(number)
    ended, _, said = end(process)
    assert ended == code
    assert "the same command goes on from here" in said
    assert "Traceback" not in said
    some = records(tmp_path / "out.jsonl")
    assert 0 < len(some) < 102
    assert run(tmp_path, "in.jsonl", "-o", "out.jsonl")[0] == ExitCode.FINDINGS
    assert len(records(tmp_path / "out.jsonl")) == 102


def limit_file_size() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))


def test_a_full_disk_is_one_message_and_the_same_command_goes_on(tmp_path: Path) -> None:
    write_input(tmp_path, 100)
    code, _, said = run(tmp_path, "in.jsonl", "-o", "out.jsonl", preexec_fn=limit_file_size)
    assert code == ExitCode.MACHINE
    assert said.count("cannot write") == 1
    assert "Traceback" not in said
    content = (tmp_path / "out.jsonl").read_bytes()
    assert content.endswith(b"\n")
    assert len(content) > 19_000
    assert run(tmp_path, "in.jsonl", "-o", "out.jsonl")[0] == ExitCode.FINDINGS
    assert (tmp_path / "out.jsonl").read_bytes().startswith(content)
    assert len(records(tmp_path / "out.jsonl")) == 102


def test_a_dead_engine_is_one_message_and_the_same_command_tries_again(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"prompt": "a"}\n' * 9 + '{"prompt": "die"}\n')
    code, _, said = run(tmp_path, "in.jsonl", "-o", "out.jsonl")
    assert code == ExitCode.FINDINGS
    assert "speccli: error: the engine died:\n  as the prompt asks" in said
    assert "the same command goes on from here" in said
    assert 5 <= len(records(tmp_path / "out.jsonl")) < 10


def test_a_reader_of_stdout_that_leaves_ends_the_run_quietly(tmp_path: Path) -> None:
    write_input(tmp_path, 3000)
    process = start(tmp_path, "in.jsonl")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    said = process.stderr.read().decode()
    assert process.wait(60) == ExitCode.FINDINGS
    assert "Traceback" not in said
    process.stderr.close()


def test_the_schema_is_shown_without_an_input(tmp_path: Path) -> None:
    code, out, _ = run(tmp_path, "--schema")
    assert code == 0
    assert {"Record", "Failure", "OpenAIRecord"} <= json.loads(out)["$defs"].keys()


def test_bad_options_are_said_before_anything_starts(tmp_path: Path) -> None:
    code, _, said = run(tmp_path, "nowhere.jsonl")
    assert code == ExitCode.USAGE
    assert said.startswith("speccli: error: cannot read nowhere.jsonl")
    assert run(tmp_path, "-", "--max-in-flight", "0")[0] == ExitCode.USAGE


def run_shell(folder: Path, arguments: str) -> tuple[int, str]:
    """The command with redirections."""
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" -m tests.commands.scripted_batch 0 batch {arguments}', sys.executable], cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("- <&-", "stdin is closed"),
        ("in.jsonl >&-", "stdout is closed"),
        ("in.jsonl -o .", "cannot write .: it is a folder"),
        ("in.jsonl -o ''", "cannot write .: it is a folder"),
        ("- -o in.jsonl --overwrite < in.jsonl", "in.jsonl is the input itself"),
        ("in.jsonl >> in.jsonl", "stdout is the input itself"),
        ("in.jsonl utf16.jsonl -o out.jsonl", "utf16.jsonl is UTF-16 text"),
    ],
)
def test_an_ordinary_mistake_is_one_message_with_a_hint(tmp_path: Path, arguments: str, said: str) -> None:
    write_input(tmp_path, 3)
    (tmp_path / "utf16.jsonl").write_text('{"prompt": "a"}', encoding="utf-16")
    before = (tmp_path / "in.jsonl").read_bytes()
    code, told = run_shell(tmp_path, arguments)
    assert code == ExitCode.USAGE
    assert told.startswith(f"speccli: error: {said}\nhint: ")
    assert len(told.splitlines()) == 2
    assert (tmp_path / "in.jsonl").read_bytes() == before
    assert not (tmp_path / "out.jsonl").exists()


def test_closed_streams_that_are_not_needed_are_not_missed(tmp_path: Path) -> None:
    write_input(tmp_path, 3)
    code, told = run_shell(tmp_path, "in.jsonl -o out.jsonl --errors errors.jsonl <&- >&-")
    assert code == ExitCode.FINDINGS
    assert "Traceback" not in told
    assert records(tmp_path / "out.jsonl").keys() == {"q0", "q1", "q2"}


def test_a_pause_of_whoever_writes_to_stdin_is_not_its_end(tmp_path: Path) -> None:
    ours, theirs = os.pipe()
    os.set_blocking(ours, False)
    process = subprocess.Popen(
        [*COMMAND, "0", "batch", "-", "-o", "out.jsonl"], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdin=ours,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    os.close(ours)
    with os.fdopen(theirs, "wb", buffering=0) as pipe:
        pipe.write(b'{"id": "a", "prompt": "a"}\n{"id": "b", ')
        wait_for(tmp_path / "out.jsonl", 0, process)
        time.sleep(0.3)
        pipe.write(b'"prompt": "b"}\n')
    assert end(process)[0] == ExitCode.DONE
    assert records(tmp_path / "out.jsonl").keys() == {"a", "b"}
