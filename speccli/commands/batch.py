"""`speccli batch`: requests from JSONL, one record out as each finishes."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

import msgspec

from speccli import jsonl
from speccli.commands.batch_ending import check_summary, how_to_go_on, how_to_retry, is_own_summary, write_summary
from speccli.commands.batch_job import Job
from speccli.errors import ExitCode, MachineError, UsageError
from speccli.jsonl.places import identity
from speccli.plan import Plan
from speccli.progress import Progress, Tally, summary
from speccli.view import View

if TYPE_CHECKING:
    from speccli.commands import OpenEngine

PROBLEMS_SHOWN = 20


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What can be typed for a batch, beside the settings."""

    sources: tuple[str, ...]
    output: Path | None = None
    errors: Path | None = None
    summary: Path | None = None
    format: Literal["auto", "speccli", "openai"] = "auto"
    ordered: bool = False
    strict: bool = False
    truncate: bool = False
    max_in_flight: int | None = None
    policy: jsonl.Policy = jsonl.Policy()


def check(options: Options) -> None:
    """Refuse, before anything is fetched or started, what cannot be read or must not be written."""
    inputs = _inputs(options)
    outputs = (options.output, options.errors, options.summary)
    jsonl.check_outputs(outputs, inputs, to_stdout=options.output is None)
    if options.output is None:
        _stdout()
    _stdin(inputs)
    if options.summary is not None:
        check_summary(options.summary, options.policy.overwrite)
    if options.strict:
        _require_good(inputs)


def batch(plan: Plan, options: Options, view: View, open_engine: OpenEngine) -> ExitCode:
    """Answer every line that has no record yet. A bad line becomes an error record and stops nothing."""
    inputs = _inputs(options)
    defaults = jsonl.Defaults(plan.profile.sampling, plan.profile.settings.system, options.truncate)
    with jsonl.open_ledger(
        options.output,
        options.errors,
        _stdout,
        lambda: jsonl.run_of(plan, inputs, options.format, options.truncate, options.ordered, options.errors),
        options.policy,
        view.narrate,
    ) as ledger:
        entries = ledger.missing(jsonl.read(jsonl.lines(inputs, _stdin(inputs)), defaults))
        return _Run(plan, options, view, open_engine, ledger).answer(entries, inputs)


class _Run:
    """One run of the command, and how it ends."""

    def __init__(self, plan: Plan, options: Options, view: View, open_engine: OpenEngine, ledger: jsonl.Ledger) -> None:
        self._plan = plan
        self._options = options
        self._view = view
        self._open_engine = open_engine
        self._ledger = ledger
        self._tally = Tally()
        self._tally.written_before = ledger.num_written
        self._has_started = False
        self._job = Job(ledger.put, self._tally, options.format, plan.pairing.target)

    def answer(self, entries: Iterator[jsonl.Entry], inputs: Sequence[jsonl.Input]) -> ExitCode:
        is_complete = False
        unwritten: MachineError | None = None
        try:
            first = self._job.first_request(entries)
            if first is not None:
                self._generate(itertools.chain([first], entries), inputs)
            is_complete = True
        except KeyboardInterrupt:
            self._view.narrate("interrupted: every record written so far is whole")
            return ExitCode.INTERRUPTED
        finally:
            unwritten = self._close(is_complete, any(one.is_stream for one in inputs))
        if unwritten is not None:
            raise unwritten
        return ExitCode.FINDINGS if self._tally.failed + self._ledger.num_failed else ExitCode.DONE

    def _generate(self, entries: Iterable[jsonl.Entry], inputs: Sequence[jsonl.Input]) -> None:
        started, total = time.monotonic(), _Total(inputs)
        with self._view.starting():
            engine = self._open_engine(self._plan)
        is_speculative = self._plan.pairing.is_speculative
        with engine as running, Progress(self._view, total, self._tally, is_speculative) as progress:
            self._tally.begin(time.monotonic() - started)
            self._has_started = True
            try:
                options = self._options
                self._job.answer(running, entries, progress, options.ordered, options.max_in_flight)
            finally:
                self._tally.end()
                progress.summary()

    def _close(self, is_complete: bool, reads_stream: bool) -> MachineError | None:
        """Say how it ended and what can be done, whatever ended it. Returns what kept the summary from being written."""
        tally, view, options = self._tally, self._view, self._options
        told = summary(tally, is_complete)
        unwritten = None if options.summary is None else write_summary(options.summary, told)
        if unwritten is not None and not is_complete:
            view.narrate(unwritten.message)
        if not self._has_started:
            view.narrate(str(tally))
        can_resume = self._ledger.can_resume
        if tally.first_problem is not None:
            where = options.errors or options.output or "the output"
            several = f"{tally.failed} lines failed, the first: "
            view.narrate(f"{several if tally.failed > 1 else 'a line failed: '}{tally.first_problem}")
            for line in how_to_retry(options.policy, can_resume, reads_stream, where):
                view.narrate(line)
        if not is_complete:
            view.narrate(how_to_go_on(options.policy, can_resume, reads_stream))
        return unwritten


class _Total:
    """Counts the lines while the engine starts and works."""

    def __init__(self, inputs: Sequence[jsonl.Input]) -> None:
        self._inputs = inputs
        self._found: int | None = None
        threading.Thread(target=self._count, name="count-lines", daemon=True).start()

    def __call__(self) -> int | None:
        return self._found

    def _count(self) -> None:
        try:
            self._found = jsonl.count_lines(self._inputs)
        except UsageError:
            return  # whoever reads the lines meets it, too, and says so


def _require_good(inputs: Sequence[jsonl.Input]) -> None:
    """With --strict: read all lines before anything starts, and refuse if one is bad."""
    stream = next((one for one in inputs if one.is_stream), None)
    if stream is not None:
        raise UsageError(f"--strict reads the input twice, which {stream.name} does not allow", "name a file")
    problems: list[str] = []
    count = 0
    with contextlib.closing(jsonl.Ids()) as ids:
        for entry in jsonl.missing(jsonl.read(jsonl.lines(inputs, _stdin(inputs)), jsonl.Defaults()), ids):
            if entry.problem is not None:
                count += 1
                problems += [entry.problem.message] if count <= PROBLEMS_SHOWN else []
    if count:
        more = [f"and {count - PROBLEMS_SHOWN} more"] if count > PROBLEMS_SHOWN else []
        raise UsageError(
            "\n  ".join([f"{count} bad lines, nothing was started:", *problems, *more]),
            "mend them, or leave out --strict: then each gets an error record and the others are answered",
        )


def _inputs(options: Options) -> tuple[jsonl.Input, ...]:
    """What is to be read: no pattern means what this very command writes."""
    own = jsonl.written_before(options.output, options.errors)
    told = options.summary
    if told is not None and is_own_summary(told):
        own |= {place for place in (identity(told, "write"),) if place is not None}
    return jsonl.find_inputs(options.sources, own)


def _stdin(inputs: Sequence[jsonl.Input]) -> BinaryIO:
    if all(one.path is not None for one in inputs):
        return io.BytesIO()
    if sys.stdin is None:
        raise UsageError("stdin is closed", "name a file, or lead one there: < FILE")
    with contextlib.suppress(io.UnsupportedOperation):  # it is no descriptor
        os.set_blocking(sys.stdin.fileno(), True)  # else a pause of the writer would read as the end
    return sys.stdin.buffer


def _stdout() -> int:
    if sys.stdout is None:
        raise UsageError("stdout is closed", "name a file for the records: -o FILE")
    return sys.stdout.fileno()
