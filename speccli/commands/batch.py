"""`speccli batch`: requests from JSONL, one record out as each finishes."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from speccli import jsonl
from speccli.commands.batch_job import Job
from speccli.errors import ExitCode, MachineError, UsageError
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
    inputs = jsonl.find_inputs(options.sources)
    jsonl.check_outputs((options.output, options.errors, options.summary), inputs)
    if options.strict:
        _require_good(inputs)


def batch(plan: Plan, options: Options, view: View, open_engine: OpenEngine) -> ExitCode:
    """Answer every line that has no record yet. A bad line becomes an error record and stops nothing."""
    inputs = jsonl.find_inputs(options.sources)
    defaults = jsonl.Defaults(plan.profile.sampling, plan.profile.settings.system, options.truncate)
    with jsonl.open_ledger(
        options.output,
        options.errors,
        sys.stdout.fileno,
        lambda: jsonl.run_of(plan, inputs, options.format, options.truncate, options.ordered, options.errors),
        options.policy,
        view.narrate,
    ) as ledger:
        entries = ledger.missing(jsonl.read(jsonl.lines(inputs, sys.stdin.buffer), defaults))
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
        try:
            first = self._job.first_request(entries)
            if first is not None:
                self._generate(itertools.chain([first], entries), inputs)
            is_complete = True
        except KeyboardInterrupt:
            self._view.narrate("interrupted: every record written so far is whole")
            return ExitCode.INTERRUPTED
        finally:
            self._close(is_complete)
        return ExitCode.FINDINGS if self._tally.failed + self._ledger.num_failed else ExitCode.DONE

    def _generate(self, entries: Iterable[jsonl.Entry], inputs: Sequence[jsonl.Input]) -> None:
        started, total = time.monotonic(), _Total(inputs)
        with self._view.starting():
            engine = self._open_engine(self._plan)
        with engine as running, Progress(self._view, total, self._tally) as progress:
            self._tally.begin(time.monotonic() - started)
            self._has_started = True
            try:
                options = self._options
                self._job.answer(running, entries, progress, options.ordered, options.max_in_flight)
            finally:
                self._tally.end()
                progress.summary()

    def _close(self, is_complete: bool) -> None:
        """Say how it ended and what can be done, whatever ended it."""
        tally, view = self._tally, self._view
        told = summary(tally, is_complete)
        if self._options.summary is not None:
            _write_summary(self._options.summary, msgspec.json.format(msgspec.json.encode(told), indent=2))
        if not self._has_started:
            view.narrate(str(tally))
        if tally.first_problem is not None:
            where = self._options.errors or self._options.output or "the output"
            several = f"{tally.failed} lines failed, the first: "
            view.narrate(f"{several if tally.failed > 1 else 'a line failed: '}{tally.first_problem}")
            view.narrate(
                f'such lines have an "error" in {where}; with --retry-failed the same command answers them again'
            )
            view.narrate("(where the input is mended first, add --force: it is another one then)")
        if not is_complete:
            can = self._ledger.can_resume
            view.narrate("the same command goes on from here" if can else "with -o FILE the same command could go on")


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
    with closing(jsonl.Ids()) as ids:
        for entry in jsonl.missing(jsonl.read(jsonl.lines(inputs, sys.stdin.buffer), jsonl.Defaults()), ids):
            if entry.problem is not None:
                count += 1
                problems += [entry.problem.message] if count <= PROBLEMS_SHOWN else []
    if count:
        more = [f"and {count - PROBLEMS_SHOWN} more"] if count > PROBLEMS_SHOWN else []
        raise UsageError(
            "\n  ".join([f"{count} bad lines, nothing was started:", *problems, *more]),
            "mend them, or leave out --strict: then each gets an error record and the others are answered",
        )


def _write_summary(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content + b"\n")
    except OSError as error:
        raise MachineError(f"cannot write {path}: {error.strerror}", "name a file that can be written") from error
