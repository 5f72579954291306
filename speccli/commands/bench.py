"""`speccli bench`: plain decoding against ways to speculate, on the same prompts, one process after the other."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from speccli import jsonl
from speccli.bench import compare, pace, process, results, table
from speccli.bench import report as reports
from speccli.bench import settings as described
from speccli.bench.cells import Cell, CellResult, Event, Failed, Finished, Job, Ready
from speccli.bench.prompts import POOLED, Prompt, load
from speccli.bench.report import Failure, Report
from speccli.bench.svg import draw
from speccli.bench.ways import PLAIN, PLAINLY, Way, asked_ways, engine_of, fair, full_label, label, offered_ways
from speccli.colour import wants_colour
from speccli.errors import EngineFailed, ExitCode, SpeccliError, UsageError
from speccli.plan import Plan
from speccli.profile import Settings

if TYPE_CHECKING:
    from speccli.view import View

    Prepare = Callable[[Settings], Plan]
    Measure = Callable[[Job], Iterator[Event]]

COMMAND = Settings(temperature=0.0, max_tokens=128)
"""Greedy answers are the same work for all ways, and can be compared."""

BUSY_SHARE = 0.25
"""Of the processors, that other programs may take before it is said."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What was typed, but for the settings of the engine."""

    prompts: Path | None = None
    methods: str | None = None
    batch_sizes: str = "1"
    repeats: int = 3
    limit: int | None = None
    output: Path | None = None
    resume: bool = False
    overwrite: bool = False
    as_json: bool = False
    csv: Path | None = None
    plot: Path | None = None


class Entrant(msgspec.Struct, frozen=True):
    """A way that is ready to be measured."""

    label: str
    plan: Plan


class Course(msgspec.Struct, frozen=True):
    """What every entrant goes through, and where the results are kept."""

    prompts: tuple[Prompt, ...]
    cells: tuple[Cell, ...]
    file: Path
    kept: results.Results

    def left(self, entrants: Sequence[Entrant]) -> list[tuple[str, Cell]]:
        return [
            (one.label, cell) for one in entrants for cell in self.cells if cell not in self.kept.cells_of(one.label)
        ]


def bench(asked: Asked, typed: Settings, prepare: Prepare, view: View, measure: Measure = process.run) -> ExitCode:
    """Measure what is missing, keep each result at once, and print how the ways compare."""
    batch_sizes = _batch_sizes(asked.batch_sizes)
    _check(asked)
    named = None if asked.methods is None else asked_ways(asked.methods)
    file = results.place(asked.output, asked.resume, asked.overwrite)
    plain = prepare(engine_of(PLAINLY, typed, batch_sizes))
    sampling = plain.profile.sampling
    prompts = load(asked.prompts, sampling, plain.profile.settings.system, asked.limit)
    ways = _offered(plain, view) if named is None else named
    entrants, failures = _entrants(plain, ways, lambda way: prepare(engine_of(way, typed, batch_sizes)), view)
    kept = _kept(asked, file, described.shared(plain, prompts), entrants)
    results.save(kept, file)  # before an hour of work: that the file can be written, and that --resume finds it
    cells = sorted(Cell(repeat, size) for repeat in range(1, asked.repeats + 1) for size in batch_sizes)
    course = Course(prompts, tuple(cells), file, kept)
    is_interrupted = False
    try:
        for one in entrants:
            failures += _run(one, entrants, course, measure, view)
    except KeyboardInterrupt:
        is_interrupted = True
    _tell(asked, _report(course, entrants, batch_sizes, failures), view)
    return _end(course, entrants, failures, is_interrupted, view)


def _batch_sizes(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise UsageError(f"--batch-sizes is {text!r}", "write numbers from 1 on with commas, such as 1,4,16")
    return sorted({int(part) for part in parts})


def _check(asked: Asked) -> None:
    for option, number in (("--repeats", asked.repeats), ("--limit", asked.limit)):
        if number is not None and number < 1:
            raise UsageError(f"{option} is {number}", "give 1 or more")
    inputs = jsonl.find_inputs([str(asked.prompts)]) if asked.prompts else ()
    jsonl.check_outputs((asked.output, asked.csv, asked.plot), inputs)


def _offered(plain: Plan, view: View) -> tuple[Way, ...]:
    ways, itself = offered_ways(plain.pairing)
    for name in itself:
        view.narrate(f"{name} is left out: the target as its own draft saves no time; --methods {name} measures it")
    return ways


def _entrants(
    plain: Plan, ways: Sequence[Way], prepare: Callable[[Way], Plan], view: View
) -> tuple[list[Entrant], list[Failure]]:
    """Each way, decided and fetched; one that cannot be is a failure, and stops no other."""
    entrants = [Entrant(PLAIN, plain)]
    failures: list[Failure] = []
    for way in ways:
        try:
            plan = fair(prepare(way))
        except SpeccliError as error:
            failures.append(Failure(way.text, error.message, error.hint))
            view.error(f"{way.text}: {error.message}", error.hint)
            continue
        name = _name(plan, entrants)
        if name in [one.label for one in entrants]:
            view.narrate(f"{way.text} is {name}, which is measured already")
            continue
        for difference in described.unequal(plan, plain):
            view.narrate(f"{name}: {difference}")
        entrants.append(Entrant(name, plan))
    return entrants, failures


def _name(plan: Plan, entrants: Sequence[Entrant]) -> str:
    """The way's label; a longer one where another speculator has the same."""
    name = label(plan.pairing)
    same = next((one for one in entrants if one.label == name), None)
    if same is None or described.of_way(same.plan) == described.of_way(plan):
        return name
    return full_label(plan.pairing)


def _kept(asked: Asked, file: Path, shared: results.Described, entrants: Sequence[Entrant]) -> results.Results:
    """What was measured before, where that is asked for; it must be of the same settings."""
    if not (asked.resume and file.exists()):
        kept = results.new(shared)
    else:
        kept = results.read(file)
        results.require_same(kept.settings, shared, "", file)
    for one in entrants:
        own = described.of_way(one.plan)
        results.require_same(kept.ways.get(one.label, own), own, f" of {one.label}", file)
        kept.ways[one.label] = own
    return kept


def _run(
    entrant: Entrant, entrants: Sequence[Entrant], course: Course, measure: Measure, view: View
) -> Iterator[Failure]:
    """Measure the cells that are missing of one entrant. Yields why it could not be, if it could not."""
    cells = tuple(cell for _, cell in course.left([entrant]))
    if not cells:
        return
    _warn_if_busy(view)
    job = Job(entrant.plan, course.prompts, cells, follow_log=view.verbose)
    with _spinner(view) as shown, closing(measure(job)) as events:  # type: ignore[type-var]
        shown(f"{entrant.label}: starting the engine …")
        for event in events:
            match event:
                case Ready(start_s):
                    view.narrate(f"{entrant.label}: engine ready after {start_s:.0f} s")
                    shown(f"{entrant.label}: warming up, then {len(cells)} measurements …")
                case Finished(result):
                    course.kept.add(entrant.label, result)
                    results.save(course.kept, course.file)
                    view.narrate(_progress(entrant.label, result, entrants, course))
                case Failed(message, hint, is_refusal=True) if entrant.label == PLAIN:
                    raise UsageError(message, hint)  # there is nothing to compare with
                case Failed() as failed:
                    told = _explained(failed)
                    view.error(f"{entrant.label}: {told.message}", told.hint)
                    yield Failure(entrant.label, told.message, told.hint)


def _explained(failed: Failed) -> EngineFailed:
    """With the cause that the engine's log tells, where there is one."""
    from speccli.diagnose.failures.failed import explained

    return explained(EngineFailed(failed.message, failed.hint, Path(failed.log) if failed.log else None))


def _progress(name: str, result: CellResult, entrants: Sequence[Entrant], course: Course) -> str:
    left = course.left(entrants)
    total = len(entrants) * len(course.cells)
    speed = result.figures[POOLED].decode_tokens_per_s
    told = f"[{total - len(left)}/{total}] {name}: batch {result.cell.batch_size}, repeat {result.cell.repeat}"
    told += "" if speed is None else f": {speed:.1f} tokens/s"
    everything = [one for some in course.kept.measured.values() for one in some]
    remaining = pace.left_s(everything, [cell for _, cell in left])
    return f"{told}, about {pace.said(remaining)} left" if remaining else told


def _warn_if_busy(view: View) -> None:
    """Where other programs take so much of the processors that it will show."""
    import psutil

    share = psutil.cpu_percent(0.5) / 100
    if share > BUSY_SHARE:
        view.narrate(f"other programs keep {share:.0%} of the processors busy: expect noise")


def _say_nothing(line: str) -> None:
    """Where no line can be redrawn."""


@contextmanager
def _spinner(view: View) -> Iterator[Callable[[str], None]]:
    """On a terminal, a line that shows that something goes on."""
    if view.quiet or not view.console.is_terminal:
        yield _say_nothing
        return
    with view.console.status("", spinner="dots") as status:
        yield status.update


def _report(
    course: Course, entrants: Sequence[Entrant], batch_sizes: Sequence[int], failures: Sequence[Failure]
) -> Report:
    names = [one.label for one in entrants]
    measured = course.kept.measured
    return Report(
        settings=course.kept.settings,
        rows=compare.rows(measured, names, batch_sizes),
        failures=failures,
        differences=compare.differences(measured, names, batch_sizes),
        is_complete=not failures and not course.left(entrants),
    )


def _tell(asked: Asked, report: Report, view: View) -> None:
    """The table, or JSON, on stdout; and the files that are asked for, where there is something to write."""
    if asked.as_json:
        sys.stdout.write(reports.to_json(report).decode() + "\n")
    elif report.rows or report.failures:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        sys.stdout.write(table.text(report, width=width, colour=wants_colour(sys.stdout)))
    for file, made in ((asked.csv, reports.to_csv), (asked.plot, draw)):
        if file is not None and report.rows:
            _write(file, made(report), view)


def _write(file: Path, content: str, view: View) -> None:
    try:
        file.write_text(content, encoding="utf-8")
    except OSError as error:
        view.error(
            f"cannot write {file}: {error.strerror}", "name another one: the same command with --resume writes it"
        )
        return
    view.narrate(f"wrote {file}")


def _end(
    course: Course, entrants: Sequence[Entrant], failures: Sequence[Failure], is_interrupted: bool, view: View
) -> ExitCode:
    """Where the results are, and how to go on."""
    left = len(course.left(entrants))
    view.narrate(f"results are kept in {course.file}")
    if is_interrupted:
        total = len(entrants) * len(course.cells)
        view.narrate(
            f"interrupted: {total - left} of {total} measurements are done; the same command with --resume goes on"
        )
        return ExitCode.INTERRUPTED
    return ExitCode.FINDINGS if failures else ExitCode.DONE
