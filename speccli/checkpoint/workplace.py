"""Making a folder of the cache: one process at a time, and never half of it in its final place."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from speccli.errors import MachineError

Narrate = Callable[[str], None]


@contextlib.contextmanager
def making(folder: Path, needed_bytes: int, narrate: Narrate) -> Iterator[Path]:
    """An empty folder that takes the final one's place when the block ends well, and is gone when it does not."""
    home = folder.parent
    try:
        home.mkdir(parents=True, exist_ok=True)
        with _lock(home, narrate):
            _sweep(home)
            _require_disk(home, needed_bytes)
            with _workplace(folder) as work:
                made = work / "made"
                made.mkdir()
                yield made
                _put_in_place(made, folder, work)
    except OSError as error:
        raise MachineError(
            f"the cache {home} cannot be used: {error}",
            "set SPECCLI_CACHE to a folder that you can write and that has room",
        ) from error


@contextlib.contextmanager
def _lock(home: Path, narrate: Narrate) -> Iterator[None]:
    """The system releases it when the process ends, however it ends."""
    with (home / ".lock").open("wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            narrate("another speccli is converting a checkpoint; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _workplace(folder: Path) -> Iterator[Path]:
    """Beside the final folder, so that the last step is a rename."""
    work = Path(tempfile.mkdtemp(prefix=f"{folder.name}-", suffix=".partial", dir=folder.parent))
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _sweep(home: Path) -> None:
    """What killed processes left: nobody else makes anything while we hold the lock."""
    for left in home.glob("*.partial"):
        shutil.rmtree(left, ignore_errors=True)


def _require_disk(home: Path, needed_bytes: int) -> None:
    free = shutil.disk_usage(home).free
    if free < needed_bytes:
        raise MachineError(
            f"{home} has {free / 1e9:.1f} GB free, and {needed_bytes / 1e9:.1f} GB are needed for the converted copy",
            "free some space, or set SPECCLI_CACHE to a folder on another disk",
        )


def _put_in_place(made: Path, folder: Path, work: Path) -> None:
    for path in made.iterdir():
        if path.is_file() and not path.is_symlink():
            _to_disk(path)
    if folder.exists():
        folder.rename(work / "replaced")
    made.rename(folder)


def _to_disk(path: Path) -> None:
    """After a power cut a file may keep its size and lose its contents, unless it was written through."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
