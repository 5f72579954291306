"""Which file a name or a descriptor leads to, under whatever name it is known."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

from speccli.errors import UsageError

Identity = tuple[int, int]
"""Device and inode."""

STDIN, STDOUT = 0, 1


def stat_of(path: Path, wanted: str) -> os.stat_result | None:
    """What is there; None: nothing yet. Raises `UsageError` where that cannot even be asked; `wanted` is read or write."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        hint = "name another, in a folder that you may enter"
        raise UsageError(f"cannot {wanted} {path}: {error.strerror}", hint) from error


def identity(path: Path, wanted: str) -> Identity | None:
    """The file, whatever it is called; None: nothing is there yet. Raises `UsageError` as `stat_of` does."""
    about = stat_of(path, wanted)
    return None if about is None else (about.st_dev, about.st_ino)


def regular(about: os.stat_result | None) -> Identity | None:
    """The same for what has a content: of a device or a pipe, what is written is not what is read."""
    return (about.st_dev, about.st_ino) if about is not None and stat.S_ISREG(about.st_mode) else None


def standard(descriptor: int) -> os.stat_result | None:
    """Where stdin or stdout leads; None: it is closed."""
    if (sys.stdin if descriptor == STDIN else sys.stdout) is None:
        return None
    try:
        return os.fstat(descriptor)
    except OSError:
        return None


def is_device(path: Path) -> bool:
    """Whether something is there that is neither a file nor a folder."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)  # noqa: PTH110, PTH112, PTH113


def real(path: Path) -> Path:
    """Where the links lead: `Path.resolve` raises where they lead round."""
    return Path(os.path.realpath(path))
