"""stdin, stdout and stderr as a command finds them: each may be closed, and what takes stdout may be full."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from speccli.errors import MachineError, SpeccliError


class Stdout(io.TextIOWrapper):
    """Where a write fails, that is this machine's error; that the reader has left is not."""

    def write(self, text: str, /) -> int:
        with _told():
            return super().write(text)

    def flush(self) -> None:
        with _told():
            super().flush()


def prepare() -> None:
    """Before anything is opened: a file that took the descriptor of a closed stream would be given what is meant for that."""
    for stream, flags in ((sys.stdin, os.O_RDONLY), (sys.stdout, os.O_RDONLY), (sys.stderr, os.O_WRONLY)):
        if stream is None:
            os.open(os.devnull, flags)  # the lowest that is free
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - for as long as the process lasts
    if sys.stdout is not None and sys.stdout is sys.__stdout__:
        sys.stdout = _telling(cast(io.TextIOWrapper, sys.stdout))


def require_stdout() -> None:
    if sys.stdout is None:
        raise MachineError("stdout is closed", "lead it to a file, or to /dev/null")


def finish() -> None:
    """Write what is held back, or let it go: when the interpreter ends, nobody can say any more that it was not written."""
    try:
        flush()
    except (OSError, SpeccliError):
        let_go()


def flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def let_go(descriptor: int = 1) -> None:
    """Nobody takes what stdout, or stderr, still holds."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def _telling(stdout: io.TextIOWrapper) -> Stdout:
    return Stdout(
        stdout.buffer,
        encoding=stdout.encoding,
        errors=stdout.errors,
        line_buffering=stdout.line_buffering,
        write_through=stdout.write_through,
    )


@contextlib.contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        hint = "free some space, or lead stdout elsewhere"
        raise MachineError(f"stdout cannot be written: {error.strerror or error}", hint) from error
