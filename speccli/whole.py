"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path


def write(file: Path, content: bytes, mode: int | None = None) -> None:
    """Written aside and renamed: whatever happens, the file holds the old content or the new, and no leftover stands beside it.

    `mode` are its permissions; without it the umask decides. A link stays one, and what it leads to is written. Raises
    `OSError`, also where that is a device or a pipe, in whose place a file would come.
    """
    file = file.resolve()
    if file.exists() and not (file.is_file() or file.is_dir()):
        raise OSError(errno.EINVAL, "it is no regular file", str(file))
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
