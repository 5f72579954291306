"""Runs a job in a process of its own, and passes on what it tells."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence

import msgspec

from speccli.bench.cells import Event, Failed, Job

COMMAND = (sys.executable, "-m", "speccli.bench.child")

PATIENCE_S = 20.0
"""For a process that has been told to end."""


def run(job: Job, command: Sequence[str] = COMMAND) -> Iterator[Event]:
    """Events as they come. The process is gone when the iterator is: finished, closed, or left by an exception."""
    # In a process group of its own, so that Ctrl-C on a terminal reaches speccli alone, which then ends it.
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0) as child:
        try:
            yield from _events(child, job)
        finally:
            _end(child)


def _events(child: subprocess.Popen[bytes], job: Job) -> Iterator[Event]:
    assert child.stdin is not None
    assert child.stdout is not None
    with contextlib.suppress(BrokenPipeError):  # it ended before it could read; its exit status tells
        child.stdin.write(msgspec.json.encode(job) + b"\n")
        child.stdin.flush()
    decoder = msgspec.json.Decoder(Event)
    for line in child.stdout:
        yield decoder.decode(line)
    try:
        status = child.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        return  # it has told all there is to tell
    if status:
        yield Failed(
            f"its process ended with {_described(status)}", "what it said is above; `-v` shows the engine's log"
        )


def _end(child: subprocess.Popen[bytes]) -> None:
    assert child.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        child.stdin.close()
    try:
        child.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        child.kill()
    except KeyboardInterrupt:  # a second one
        child.kill()
        raise


def _described(status: int) -> str:
    if status >= 0:
        return f"exit code {status}"
    name = signal.Signals(-status).name
    return f"{name}, as it does when memory is short" if name == "SIGKILL" else name
