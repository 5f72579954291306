"""An output file of whole records: locked, appended to, cut back where a write fails, repaired where a run was killed."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from speccli.errors import MachineError, UsageError

SYNC_EVERY_S = 10.0
"""A record is the system's as soon as it is written, so it outlives this process; a power failure costs this much."""

FIRST_OF_OURS = 3
"""The first descriptor that is neither stdin, stdout nor stderr."""

NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK)

STARTS = (b'{"schema_version":', b'{"id":"batch_req_')
"""How a record begins, in either form."""


class Written(msgspec.Struct, frozen=True):
    """What resuming needs of a record, in either form."""

    schema_version: Any = None
    id: Any = None
    custom_id: Any = None
    response: Any = msgspec.UNSET
    error: Any = None

    @property
    def name(self) -> str | int | None:
        """The line's id; None where this is no record of ours: a line of an OpenAI Batch input has no response."""
        ours = self.custom_id if self.response is not msgspec.UNSET else None
        found = ours if self.schema_version is None else self.id
        return found if isinstance(found, str | int) else None


Visit = Callable[[str | int, bool], None]
"""Told the id of a record, and whether it is of a failure."""

_decoder = msgspec.json.Decoder(Written)


class Stream:
    """stdout, a pipe or a device: written once, never read again."""

    def __init__(self, descriptor: int, name: str) -> None:
        self.name = name
        self._descriptor = descriptor

    @classmethod
    def of(cls, path: Path) -> Self:
        """A device or a pipe that is there."""
        try:
            return cls(_above_standard(os.open(path, os.O_WRONLY)), str(path))
        except OSError as error:
            raise _no_place(path, error) from error

    @classmethod
    def beside(cls, descriptor: int, name: str) -> Self:
        """The same as an open descriptor, which stays open when this is closed."""
        return cls(fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, FIRST_OF_OURS), name)

    def write(self, record: bytes) -> None:
        try:
            _write_all(self._descriptor, record)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise _cannot_write(self.name, error) from error

    def close(self) -> None:
        os.close(self._descriptor)


class RecordFile:
    """A file of records that this run alone writes to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = str(path)
        self._descriptor = _open_locked(path)
        self._end = os.fstat(self._descriptor).st_size
        self._synced_s = time.monotonic()

    @property
    def is_empty(self) -> bool:
        return self._end == 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def write(self, record: bytes) -> None:
        """Append a record: all of it, or nothing."""
        try:
            _write_all(self._descriptor, record)
            self._end += len(record)
        except OSError as error:
            self._cut_to(self._end)
            raise _cannot_write(self.name, error) from error
        except BaseException:  # Ctrl-C, perhaps within a record
            self._cut_to(self._end)
            raise
        if time.monotonic() - self._synced_s > SYNC_EVERY_S:
            self._sync()

    def read(self, visit: Visit) -> int:
        """Visit every record. Returns how many bytes behind the last one a killed run left of another."""
        whole = 0
        for end, _, name, is_failure in self._records():
            whole = end
            visit(name, is_failure)
        os.lseek(self._descriptor, 0, os.SEEK_END)
        return self._end - whole

    def cut_off(self, num_bytes: int) -> None:
        """Drop so many of the last bytes."""
        self._cut_to(self._end - num_bytes)

    def clear(self) -> None:
        self._cut_to(0)

    def drop_failures(self) -> None:
        """Keep the answers alone, so that the failed lines can be answered again. All at once: the file is replaced."""
        folder, name = self.path.parent, self.path.name
        try:
            made, new = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
            descriptor = _above_standard(made)
        except OSError as error:
            raise _cannot_write(self.name, error) from error
        try:
            for _, line, _, is_failure in self._records():
                if not is_failure:
                    _write_all(descriptor, line)
            os.fchmod(descriptor, os.fstat(self._descriptor).st_mode & 0o7777)
            os.fsync(descriptor)
            _lock(descriptor, self.path)
            Path(new).replace(self.path)
        except BaseException as error:
            os.close(descriptor)
            Path(new).unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise _cannot_write(self.name, error) from error
            raise
        os.close(self._descriptor)
        self._descriptor, self._end = descriptor, os.fstat(descriptor).st_size

    def close(self) -> None:
        try:
            self._sync()
        finally:
            os.close(self._descriptor)

    def _sync(self) -> None:
        self._synced_s = time.monotonic()
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EROFS):
                raise _cannot_write(self.name, error) from error

    def _cut_to(self, end: int) -> None:
        os.ftruncate(self._descriptor, end)
        os.lseek(self._descriptor, end, os.SEEK_SET)
        self._end = end

    def _records(self) -> Iterator[tuple[int, bytes, str | int, bool]]:
        """Each record: the offset behind it, its line, its id, and whether it is of a failure. A torn last one is left out.

        The descriptor stays open: closing any descriptor of this file would drop the lock.
        """
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        end = 0
        with open(self._descriptor, "rb", closefd=False) as file:
            for number, line in enumerate(file, 1):
                if _is_torn(line):
                    return
                written = _decoded(line)
                if written is None or written.name is None:
                    raise UsageError(
                        f"{self.name}:{number} is no record of speccli batch",
                        "name another file with -o, or begin anew with --overwrite",
                    )
                end += len(line)
                yield end, line, written.name, written.error is not None


def _is_torn(line: bytes) -> bool:
    """A killed process leaves the start of a record; a power failure may leave zeros."""
    if line.endswith(b"\n"):
        return False
    return line.startswith(b"\0") or any(line.startswith(start[: len(line)]) for start in STARTS)


def _decoded(line: bytes) -> Written | None:
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _write_all(descriptor: int, record: bytes) -> None:
    written = 0
    while written < len(record):
        try:
            written += os.write(descriptor, record[written:] if written else record)
        except BlockingIOError:
            _wait_for_room(descriptor)


def _wait_for_room(descriptor: int) -> None:
    """A pipe that does not block says so when it is full: its reader is slower than we are."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    poll.poll()


def _open_locked(path: Path) -> int:
    """Open for appending, made if missing. Whoever replaced the file meanwhile is waited for by opening it again."""
    while True:
        try:
            descriptor = _above_standard(os.open(path, os.O_RDWR | os.O_CREAT, 0o666))
        except OSError as error:
            raise _no_place(path, error) from error
        try:
            _lock(descriptor, path)
            os.lseek(descriptor, 0, os.SEEK_END)
        except BaseException:
            os.close(descriptor)
            raise
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_ino == os.fstat(descriptor).st_ino:
                return descriptor
        os.close(descriptor)


def _above_standard(descriptor: int) -> int:
    """A descriptor that nobody takes for stdin, stdout or stderr, one of which was closed."""
    if descriptor >= FIRST_OF_OURS:
        return descriptor
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, FIRST_OF_OURS)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, path: Path) -> None:
    """A lock of this process, which its children do not inherit: it ends with us, however we end."""
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in NO_LOCKS:
            return
        raise UsageError(
            f"another run is writing {path}", "wait until it has ended, or name another file with -o"
        ) from error


def _no_place(path: Path, error: OSError) -> UsageError:
    return UsageError(
        f"cannot write {path}: {error.strerror}", "name a file in a folder that exists and can be written"
    )


def _cannot_write(name: str, error: OSError) -> MachineError:
    return MachineError(
        f"cannot write {name}: {error.strerror}", "make room or mend the cause; every record written so far is whole"
    )
