"""The ledger of a batch: where records go, and which lines have theirs already."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from speccli.errors import UsageError
from speccli.jsonl.ids import Ids
from speccli.jsonl.inputs import Input
from speccli.jsonl.output import RecordFile, Stream
from speccli.jsonl.requests import Entry, Problem
from speccli.jsonl.run import Run, differences, remember, remembered, run_path

Narrate = Callable[[str], None]


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
        self.num_torn_bytes = 0
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

    def recover(self) -> None:
        for file in {self._output, self._errors}:
            if isinstance(file, RecordFile):
                self.num_torn_bytes += file.recover(self._visit)

    def own(self, opened: ExitStack) -> None:
        """Close this, too, when the ledger is closed."""
        self._owned = opened

    def _visit(self, name: str | int, is_failure: bool) -> None:
        self.ids.add_written(name, is_failure)
        self.num_failed += is_failure
        self.num_answered += not is_failure

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
            if not ids.look_up(place).is_written:
                yield _duplicate(entry, place, known.met_at)
        elif not known.is_written:
            yield entry


def _duplicate(entry: Entry, place: str, met_at: str) -> Entry:
    """The first line keeps the id; this one is told by its place, so that no id is written twice."""
    name = entry.source.id
    shown = f'"{name}"' if isinstance(name, str) else str(name)
    problem = Problem("duplicate_id", f"{place}: the id {shown} is that of {met_at} already")
    source = msgspec.structs.replace(entry.source, id=place)
    return msgspec.structs.replace(entry, source=source, request=None, problem=problem)


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
            _settle(out, files, run(), policy)
            ledger.recover()
            _tell(ledger, out, narrate)
        elif isinstance(err, RecordFile) and not err.is_empty:
            if not policy.overwrite:
                raise _exists(err)
            err.clear()
        ledger.own(stack.pop_all())
        return ledger


def check_outputs(outputs: Sequence[Path | None], inputs: Sequence[Input]) -> None:
    """Refuse to write to an input, or to the same file twice, under whatever name."""
    given = [path for path in outputs if path is not None]
    beside = [run_path(path) for path in given[:1]]
    for path in (*given, *beside):
        for one in inputs:
            if one.path is not None and path.exists() and one.path.samefile(path):
                raise UsageError(f"{path} is the input itself", "name another file")
    seen: set[object] = set()
    for path in (*given, *beside):
        key = path.resolve()
        if key in seen:
            raise UsageError(f"{path} is named for two outputs", "name a file for each")
        seen.add(key)


def _opened(path: Path | None, stdout: Callable[[], int], stack: ExitStack) -> RecordFile | Stream:
    if path is None or (path.exists() and not path.is_file() and not path.is_dir()):
        descriptor = os.dup(stdout()) if path is None else os.open(path, os.O_WRONLY)
        stream = Stream(descriptor, "stdout" if path is None else str(path))
        stack.callback(stream.close)
        return stream
    return stack.enter_context(RecordFile(path.resolve()))


def _settle(out: RecordFile, files: Sequence[RecordFile], run: Run, policy: Policy) -> None:
    """Make sure that the files are empty, or of this very run; then remember it."""
    if policy.overwrite:
        for file in files:
            file.clear()  # before it is remembered: a run that is killed here finds an empty file
    if any(not file.is_empty for file in files):
        _check_same(out, files, run, policy)
    if policy.retry_failed:
        for file in files:
            file.drop_failures()
    remember(run, out.path)


def _check_same(out: RecordFile, files: Sequence[RecordFile], run: Run, policy: Policy) -> None:
    then = remembered(out.path)
    if then is None or policy.resume is False:
        raise _exists(next(file for file in files if not file.is_empty))
    if policy.force:
        return
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


def _exists(file: RecordFile) -> UsageError:
    return UsageError(f"{file.path} exists already", "name another file, or add --overwrite")


def _tell(ledger: Ledger, out: RecordFile, narrate: Narrate) -> None:
    if ledger.num_torn_bytes:
        narrate(f"{out.name} ended in a torn line of {ledger.num_torn_bytes} bytes: cut off")
    if ledger.num_written:
        failed = (
            f", {ledger.num_failed} of them failed (--retry-failed asks for these again)" if ledger.num_failed else ""
        )
        narrate(f"resuming: {ledger.num_written} lines have their record{failed}")
