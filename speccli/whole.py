"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def write(file: Path, content: bytes, mode: int | None = None) -> None:
    """Written aside and renamed: whatever happens, the file holds the old content or the new, and no leftover stands beside it.

    `mode` are its permissions; without it the umask decides. Raises `OSError`.
    """
    aside = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        with aside.open("wb") as part:
            if mode is not None:
                os.fchmod(part.fileno(), mode)
            part.write(content)
            part.flush()
            os.fsync(part.fileno())
        aside.replace(file)
    except BaseException:
        with contextlib.suppress(OSError):
            aside.unlink()
        raise
