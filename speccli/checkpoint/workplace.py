"""Making a folder of the cache: one process at a time, and never half of it in its final place.

<home>/<name>/            what is finished
<home>/<name>-….partial/  one in the making; whoever holds the lock may sweep what others left
"""

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
FreeBytes = Callable[[Path], int]


def free_bytes_of(folder: Path) -> int:
    return shutil.disk_usage(folder).free


def make(
    folder: Path,
    fill: Callable[[Path], None],
    *,
    is_whole: Callable[[], bool],
    needed_bytes: int,
    narrate: Narrate,
    free_bytes: FreeBytes = free_bytes_of,
) -> bool:
    """Put what `fill` writes into an empty folder in place of `folder`; False where another process has done it by now.

    The parent of the folder that `fill` gets is its own too, for what is gone afterwards.
    """
    home = folder.parent
    try:
        home.mkdir(parents=True, exist_ok=True)
        with _lock(home, narrate):
            if is_whole():
                return False
            _sweep(home)
            _require_disk(home, free_bytes(home), needed_bytes)
            with _workplace(folder) as work:
                made = work / "made"
                made.mkdir()
                fill(made)
                _put_in_place(made, folder, work)
    except OSError as error:
        raise MachineError(
            f"the cache {home} cannot be used: {error}",
            "set SPECCLI_CACHE to a folder that you can write and that has room",
        ) from error
    return True


@contextlib.contextmanager
def _lock(home: Path, narrate: Narrate) -> Iterator[None]:
    """Held by one process at a time; the system releases it when that process ends, however it ends."""
    with (home / ".lock").open("wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            narrate("another speccli is preparing a checkpoint; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _workplace(folder: Path) -> Iterator[Path]:
    """Beside the final folder, so that the last step is a rename; gone afterwards whatever happens."""
    work = Path(tempfile.mkdtemp(prefix=f"{folder.name}-", suffix=".partial", dir=folder.parent))
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _sweep(home: Path) -> None:
    """What killed processes left: nobody else makes anything while we hold the lock."""
    for left in home.glob("*.partial"):
        shutil.rmtree(left, ignore_errors=True)


def _require_disk(home: Path, free_bytes: int, needed_bytes: int) -> None:
    if free_bytes < needed_bytes:
        raise MachineError(
            f"{home} has {free_bytes / 1e9:.1f} GB free, and {needed_bytes / 1e9:.1f} GB are needed to convert the weights",
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
    """After a power cut a file may keep size and time and lose its contents, unless it was written through."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
