"""Folders as they should not be."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

NOBODY = 65534


@contextlib.contextmanager
def no_entry(folder: Path) -> Iterator[None]:
    """While this lasts, nobody may enter the folder: not even root, who is somebody else meanwhile."""
    user = os.geteuid()
    folder.chmod(0)
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)
        folder.chmod(0o700)
