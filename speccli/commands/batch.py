"""`speccli batch`: requests from JSONL, one record out as each finishes."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from speccli import jsonl
from speccli.answer import Answer
from speccli.engine import Engine, Request, Step
from speccli.errors import ExitCode, UsageError
from speccli.plan import Plan
from speccli.progress import Progress, Tally
from speccli.view import View

if TYPE_CHECKING:
    from speccli.commands import OpenEngine


def batch(
    plan: Plan, source: str, output: Path | None, overwrite: bool, view: View, open_engine: OpenEngine
) -> ExitCode:
    """Answer every line of `source`. A bad line becomes an error record and stops nothing."""
    with ExitStack() as stack:
        lines = stack.enter_context(jsonl.open_input(source, sys.stdin.buffer))
        out = stack.enter_context(_open_output(output, source, overwrite))
        entries = jsonl.read(lines, plan.profile.sampling, plan.profile.settings.system)
        with view.starting():
            engine = open_engine(plan)
        tally = Tally()
        progress = stack.enter_context(Progress(view, jsonl.count_lines(source), tally))
        try:
            with engine as running:
                answer_lines(running, entries, out, tally, progress)
        except KeyboardInterrupt:
            view.narrate("interrupted: every record written so far is whole")
            return ExitCode.INTERRUPTED
        finally:
            progress.summary()
    return ExitCode.FINDINGS if tally.failed else ExitCode.DONE


def answer_lines(
    engine: Engine, entries: Iterable[jsonl.Entry], out: BinaryIO, tally: Tally, progress: Progress
) -> None:
    """Answer every entry, writing each record as it is finished."""
    flying: dict[str, tuple[jsonl.Source, Answer]] = {}
    with closing(engine.generate(_requests(entries, flying, out, tally))) as steps:  # type: ignore[type-var]
        for step in steps:
            _take(step, flying, out, tally)
            progress.update()


def _requests(
    entries: Iterable[jsonl.Entry], flying: dict[str, tuple[jsonl.Source, Answer]], out: BinaryIO, tally: Tally
) -> Iterator[Request]:
    """What the engine pulls, as slots free up. Bad lines are recorded on the way."""
    for entry in entries:
        if entry.request is None:
            _write(out, jsonl.failure(entry.source, entry.error or ""))
            tally.fail()
            continue
        flying[entry.request.id] = (entry.source, Answer(time.monotonic()))
        yield entry.request


def _take(step: Step, flying: dict[str, tuple[jsonl.Source, Answer]], out: BinaryIO, tally: Tally) -> None:
    source, answer = flying[step.request_id]
    answer.add(step)
    tally.add(step)
    if not step.is_last:
        return
    del flying[step.request_id]
    if answer.error is None:
        _write(out, jsonl.record(source, answer))
        tally.succeed()
    else:
        _write(out, jsonl.failure(source, f"line {source.line}: {answer.error}"))
        tally.fail()


def _write(out: BinaryIO, line: bytes) -> None:
    out.write(line)
    out.flush()


def _open_output(output: Path | None, source: str, overwrite: bool) -> BinaryIO:
    if output is None:
        return os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    if source != "-" and output.exists() and output.samefile(source):
        raise UsageError(f"{output} is the input itself", "name another file with -o")
    if not overwrite and output.exists() and output.stat().st_size:
        raise UsageError(f"{output} exists already", "name another file, or add --overwrite")
    try:
        return output.open("wb")
    except OSError as error:
        raise UsageError(
            f"cannot write {output}: {error.strerror}", "name a file in a folder that exists and can be written"
        ) from error
