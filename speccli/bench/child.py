"""The process that measures: a job on stdin, events on stdout as JSON lines. `python -m speccli.bench.child`

It ends, and its engine with it, when stdin ends: whoever started it is gone, or wants no more.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import BinaryIO

import msgspec

from speccli.bench.cells import Event, Failed, Finished, Job, Ready
from speccli.bench.measure import measure, warm_up
from speccli.engine import Engine, open_engine
from speccli.errors import EngineFailed, SpeccliError, UsageError
from speccli.plan import Plan


def perform(job: Job, open_engine: Callable[[Plan], Engine]) -> Iterator[Event]:
    """Start the engine, warm it up, and measure every cell on it."""
    started = time.monotonic()
    is_ready = False
    try:
        with open_engine(job.plan) as engine:
            is_ready = True
            yield Ready(round(time.monotonic() - started, 1))
            for batch_size in sorted({cell.batch_size for cell in job.cells}):
                warm_up(engine, job.prompts, batch_size)
            for cell in job.cells:
                yield Finished(measure(engine, job.prompts, cell))
    except SpeccliError as error:
        log = error.log if isinstance(error, EngineFailed) else None
        is_refusal = is_ready and isinstance(error, UsageError)
        yield Failed(error.message, error.hint, is_refusal, None if log is None else str(log))


def main() -> None:
    job = msgspec.json.decode(sys.stdin.buffer.readline(), type=Job)
    threading.Thread(target=_end_with_stdin, name="end-with-stdin", daemon=True).start()
    with _channel() as channel:
        for event in perform(job, lambda plan: open_engine(plan, follow_log=job.follow_log)):
            channel.write(msgspec.json.encode(event) + b"\n")
            channel.flush()


def _channel() -> BinaryIO:
    """What was stdout, for events alone: anything else that is printed from now on goes to stderr."""
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return channel


def _end_with_stdin() -> None:
    """The engine's processes are ended first: while they start they do not yet look after themselves."""
    import psutil

    while os.read(0, 4096):  # not through sys.stdin, whose lock would hang the interpreter's own end
        pass
    for process in psutil.Process().children(recursive=True):
        process.kill()
    os._exit(1)


if __name__ == "__main__":
    main()
