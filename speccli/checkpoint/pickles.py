"""What .bin and .pt files hold, read by torch's weights-only loader in a process of its own."""

from __future__ import annotations

import contextlib
import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from speccli.checkpoint import list_pickle
from speccli.checkpoint.header import Tensor
from speccli.errors import CheckpointError, MachineError

Listing = dict[str, dict[str, tuple[str, tuple[int, ...], int]]]


def read_files(paths: Sequence[Path], cache: Path | None = None) -> dict[str, Tensor]:
    """The tensors of all files by name. `cache` keeps the answer, which takes some seconds, while the files stay."""
    if (found := kept(paths, cache)) is not None:
        return found
    listing = _listed(paths)
    if cache is not None:
        _keep(_place(paths, cache), listing)
    return _tensors(listing)


def kept(paths: Sequence[Path], cache: Path | None) -> dict[str, Tensor] | None:
    """The same where `cache` has the answer from before; None where it does not."""
    place = _place(paths, cache) if cache else None
    if place is None or not place.is_file():
        return None
    return _tensors(msgspec.json.decode(place.read_bytes(), type=Listing))


def _tensors(listing: Listing) -> dict[str, Tensor]:
    return {
        name: Tensor(dtype, shape, size_bytes, Path(path).name)
        for path, tensors in listing.items()
        for name, (dtype, shape, size_bytes) in tensors.items()
    }


def _listed(paths: Sequence[Path]) -> Listing:
    command = [sys.executable, "-P", list_pickle.__file__, *map(str, paths)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return msgspec.json.decode(done.stdout, type=Listing)
    said = done.stderr.strip().splitlines() or [f"ended by signal {-done.returncode}"]
    name = paths[0].name if len(paths) == 1 else f"{paths[0].name} and {len(paths) - 1} more"
    if "No module named 'torch'" in said[-1]:
        raise MachineError(f"{name} cannot be read: torch is missing", "install speccli[cuda] or speccli[cpu]")
    raise CheckpointError(
        f"{name} cannot be read by torch's weights-only loader: {said[-1]}",
        "fetch the checkpoint again, or use one that comes as safetensors",
    )


def _place(paths: Sequence[Path], cache: Path) -> Path:
    seen = [(str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in paths]
    return cache / "listings" / f"{hashlib.sha256(msgspec.json.encode(seen)).hexdigest()[:24]}.json"


def _keep(place: Path, listing: Listing) -> None:
    with contextlib.suppress(OSError):  # only speed would be lost
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=place.parent, suffix=".partial", delete=False) as file:
            file.write(msgspec.json.encode(listing))
        Path(file.name).replace(place)
