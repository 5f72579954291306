"""Files: what a checkpoint consists of, wherever it lies, read piece by piece."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from speccli.errors import CheckpointError


@dataclasses.dataclass(frozen=True, slots=True)
class Files:
    """The files of one checkpoint. `name` is how people know it."""

    name: str
    sizes: dict[str, int]
    """In bytes, by name; top level only, since vLLM looks no deeper."""
    read: Callable[[str, int, int], bytes]
    """File, offset and size to the bytes there."""
    folder: Path | None = None
    """Where the files lie on this machine, or will once they are fetched."""

    def read_json(self, file: str) -> dict[str, Any] | None:
        """The object in a JSON file; None where there is no such file."""
        if file not in self.sizes:
            return None
        try:
            return msgspec.json.decode(self.read(file, 0, self.sizes[file]), type=dict[str, Any])
        except (msgspec.DecodeError, RecursionError) as error:
            raise CheckpointError(
                f"{self.name}: {file} cannot be read: {error}", "fetch the checkpoint again"
            ) from error


def in_folder(folder: Path, name: str) -> Files:
    """The files of a folder on this machine."""

    def read(file: str, offset: int, size: int) -> bytes:
        with (folder / file).open("rb") as opened:
            opened.seek(offset)
            return opened.read(size)

    try:
        sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir()) if path.is_file()}
    except OSError as error:
        raise CheckpointError(
            f"{name}: {folder} cannot be read: {error.strerror}", "name a folder with a checkpoint"
        ) from error
    return Files(name, sizes, read, folder)
