"""The ledger of a batch: where records go, and which lines have theirs already."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from speccli.errors import UsageError
from speccli.jsonl.ids import Ids, Known
from speccli.jsonl.output import RecordFile, Stream
from speccli.jsonl.places import is_device, real
from speccli.jsonl.requests import Entry, Problem, printable
from speccli.jsonl.run import Run, differences, known_run, remember, remembered, require_own, run_path

Narrate = Callable[[str], None]

AGAIN = "+"
"""Goes behind a line's place where that is another line's id."""


class Policy(msgspec.Struct, frozen=True):
    """What to do with an output that is there already."""

    overwrite: bool = False
    resume: bool | None = None
    """None: where it can be seen that the run is the same."""
    force: bool = False
    retry_failed: bool = False


class Ledger:
    """Takes records, and knows which ids have one. Closing it syncs the files."""

    def __init__(self, output: RecordFile | Stream, errors: RecordFile | Stream | None) -> None:
        self.ids = Ids()
        self.num_answered = 0
        self.num_failed = 0
        self.num_dropped = 0
        """Records of failures that were there and are written again."""
        self._output = output
        self._errors = output if errors is None else errors
        self._owned = ExitStack()

    @property
    def num_written(self) -> int:
        """Records that an earlier run wrote."""
        return self.num_answered + self.num_failed

    @property
    def can_resume(self) -> bool:
        return isinstance(self._output, RecordFile)

    def put(self, record: bytes, is_failure: bool) -> None:
        (self._errors if is_failure else self._output).write(record)

    def missing(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        """The entries that have no record yet."""
        return missing(entries, self.ids)

    def read(self, file: RecordFile, drops_failures: bool) -> int:
        """Note the records that are in this file, and will be. Returns how many bytes behind them are torn."""

        def visit(name: str | int, is_failure: bool) -> None:
            if is_failure and drops_failures:
                self.num_dropped += 1
                return
            self.ids.add_written(name, is_failure)
            self.num_failed += is_failure
            self.num_answered += not is_failure

        return file.read(visit)

    def own(self, opened: ExitStack) -> None:
        """Close this, too, when the ledger is closed."""
        self._owned = opened

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._owned.close()


def missing(entries: Iterable[Entry], ids: Ids) -> Iterator[Entry]:
    """The entries that have no record yet. An id that comes again becomes a problem of that line."""
    for entry in entries:
        source = entry.source
        place = f"{source.file}:{source.line}"
        known = ids.meet(source.id, place)
        if known.met_at is not None:
            entry, known = _duplicate(entry, place, known.met_at, ids)
        if not known.is_written:
            yield entry


def _duplicate(entry: Entry, place: str, met_at: str, ids: Ids) -> tuple[Entry, Known]:
    """The first line keeps the id; this one is told by its place, so that no id is written twice."""
    name = entry.source.id
    shown = f'"{printable(name)}"' if isinstance(name, str) else str(name)
    problem = Problem("duplicate_id", f"{printable(place)}: the id {shown} is that of {printable(met_at)} already")
    own, known = place, ids.meet(place, place)
    while known.met_at is not None:  # another line is called as this one's place is
        own += AGAIN
        known = ids.meet(own, place)
    source = msgspec.structs.replace(entry.source, id=own)
    return msgspec.structs.replace(entry, source=source, request=None, problem=problem), known


def open_ledger(
    output: Path | None,
    errors: Path | None,
    stdout: Callable[[], int],
    run: Callable[[], Run],
    policy: Policy,
    narrate: Narrate,
) -> Ledger:
    """Open what the records go to. Raises `UsageError` rather than touch a file that is not this run's."""
    with ExitStack() as stack:
        out = _opened(output, stdout, stack)
        err = None if errors is None else _opened(errors, stdout, stack)
        ledger = Ledger(out, err)
        stack.callback(ledger.ids.close)
        if isinstance(out, RecordFile):
            files = [file for file in (out, err) if isinstance(file, RecordFile)]
            _settle(ledger, files, run(), policy, narrate)
        elif isinstance(err, RecordFile) and not err.is_empty:
            if not policy.overwrite:
                raise UsageError(f"{err.path} exists already", "name another file, or add --overwrite")
            err.clear()
        ledger.own(stack.pop_all())
        return ledger


def _opened(path: Path | None, stdout: Callable[[], int], stack: ExitStack) -> RecordFile | Stream:
    if path is None:
        stream = Stream.beside(stdout(), "stdout")
    elif is_device(path):
        stream = Stream.of(path)
    else:
        return stack.enter_context(RecordFile(real(path)))
    stack.callback(stream.close)
    return stream


def _settle(ledger: Ledger, files: Sequence[RecordFile], run: Run, policy: Policy, narrate: Narrate) -> None:
    """Make sure that the files are empty, or of this very run; then remember it. Where that is refused, all stays as it was."""
    out, notes = files[0], list[str]()
    if policy.overwrite:
        for file in files:
            file.clear()  # before it is remembered: a run that is killed here finds an empty file
    elif all(file.is_empty for file in files):
        require_own(out.path)
    else:
        notes = _check_same(out, files, run, policy)
    torn = [(file, ledger.read(file, policy.retry_failed)) for file in files]
    remember(run, out.path)
    for note in notes:
        narrate(note)
    for file, num_bytes in torn:
        if num_bytes:
            file.cut_off(num_bytes)
            narrate(f"{file.name} ended in a torn line of {num_bytes} bytes: cut off")
        if ledger.num_dropped:
            file.drop_failures()
    _tell(ledger, run, narrate)


def _check_same(out: RecordFile, files: Sequence[RecordFile], run: Run, policy: Policy) -> list[str]:
    """Refuse to go on with another run's records, unless that is forced: then what to say of it."""
    there = next(file for file in files if not file.is_empty)
    if policy.resume is False:
        raise UsageError(f"{there.path} exists already", "name another file, leave out --no-resume, or add --overwrite")
    if policy.force:
        return _forced(known_run(out.path), run)
    then = remembered(out.path)
    if then is None:
        raise UsageError(
            f"{there.path} exists already, and {run_path(out.path)} is not there to tell of its run",
            "name another file; or go on with the records that are there (--force), or begin anew (--overwrite)",
        )
    changed = differences(then, run)
    if changed:
        raise UsageError(
            "\n  ".join([f"{out.path} was written by another run:", *changed]),
            "name another file with -o; or go on with the settings of now (--force), or begin anew (--overwrite)",
        )
    streams = [one.name for one in run.inputs if one.sha256 is None]
    if streams and policy.resume is None:
        raise UsageError(
            f"{out.path} exists, and whether {streams[0]} is the input of that run cannot be seen",
            "add --resume if it is, or --overwrite to begin anew",
        )
    return []


def _forced(then: Run | None, run: Run) -> list[str]:
    notes = [] if then is None else [f"going on all the same: {line}" for line in differences(then, run)]
    if then is None or then.inputs != run.inputs:
        notes.append("a line without an id is known by its file and number: what stands there now counts as answered")
    return notes


def _tell(ledger: Ledger, run: Run, narrate: Narrate) -> None:
    if ledger.num_written:
        failed = (
            f", {ledger.num_failed} of them failed (--retry-failed asks for these again)" if ledger.num_failed else ""
        )
        narrate(f"resuming: {ledger.num_written} lines have their record{failed}")
    if run.ordered and ledger.num_dropped and ledger.num_answered:
        narrate(
            "the lines that are answered again come behind those that have their record, not in the order of the input"
        )
