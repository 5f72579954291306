"""Safetensors headers: the names, types, shapes and places of tensors, without their contents.

A file starts with the header's length (8 bytes, little-endian), then the header as JSON, then the contents.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from speccli.errors import CheckpointError

ReadRange = Callable[[int, int], bytes]
"""Offset and size, both in bytes, to the bytes there."""

MAX_HEADER_BYTES = 100_000_000
"""What the safetensors library allows."""

FIRST_READ_BYTES = 256 * 1024
"""Holds most headers whole, so that one request is enough for a file on the hub."""

DTYPE_BITS = {
    "F64": 64, "I64": 64, "U64": 64, "C64": 64,
    "F32": 32, "I32": 32, "U32": 32,
    "F16": 16, "BF16": 16, "I16": 16, "U16": 16,
    "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "I8": 8, "U8": 8, "BOOL": 8,
    "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4,
}  # fmt: skip


class Tensor(msgspec.Struct, frozen=True):
    """A tensor in a file. `dtype` is safetensors' word for the type, such as "BF16"."""

    dtype: str
    shape: tuple[int, ...]
    size_bytes: int
    file: str = ""
    start_bytes: int | None = None
    """Where its contents start in the file; None where the file is a pickle, whose layout only torch reads."""

    @property
    def num_elements(self) -> int:
        count = 1
        for size in self.shape:
            count *= size
        return count


class _Entry(msgspec.Struct, frozen=True):
    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


def read_file(path: Path) -> dict[str, Tensor]:
    """The header of a file on this machine. Raises `CheckpointError` for one that cannot be read whole."""

    def read_range(offset: int, size: int) -> bytes:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(size)

    try:
        return read_ranges(read_range, path.stat().st_size, path.name)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}", "check its rights and its disk") from error


def read_ranges(read_range: ReadRange, file_bytes: int, file: str) -> dict[str, Tensor]:
    """The header of a file that is read piecewise, as over HTTP ranges. `file` is its name, for messages."""
    start = read_range(0, min(file_bytes, FIRST_READ_BYTES))
    header_bytes = _header_bytes(start, file_bytes, file)
    end = 8 + header_bytes
    if end > len(start):
        start += read_range(len(start), end - len(start))
    if end > len(start):
        raise _damaged(file, f"its header ends after {len(start):,} of {end:,} bytes")
    tensors = _decoded(start[8:end], file)
    return {name: _tensor(name, entry, end, file_bytes, file) for name, entry in tensors.items()}


def _header_bytes(start: bytes, file_bytes: int, file: str) -> int:
    if start.startswith(b"version https://git-lfs"):
        raise CheckpointError(f"{file} is a Git LFS pointer, not the weights", "`git lfs pull` in that folder")
    if len(start) < 8:
        raise _damaged(file, f"it holds {file_bytes} bytes")
    (size,) = struct.unpack("<Q", start[:8])
    if size > MAX_HEADER_BYTES:
        raise _damaged(
            file, f"its header claims {_gb(size)}, and {_gb(MAX_HEADER_BYTES)} is the most that the format allows"
        )
    if 8 + size > file_bytes:
        raise _damaged(file, f"its header claims {size:,} bytes, and the file holds {file_bytes:,}")
    return int(size)


def _decoded(header: bytes, file: str) -> dict[str, _Entry]:
    try:
        parts = msgspec.json.decode(header, type=dict[str, msgspec.Raw])
        return {name: msgspec.json.decode(raw, type=_Entry) for name, raw in parts.items() if name != "__metadata__"}
    except (msgspec.DecodeError, RecursionError) as error:
        raise _damaged(file, f"its header is no table of tensors: {error}") from error


def _tensor(name: str, entry: _Entry, contents_start: int, file_bytes: int, file: str) -> Tensor:
    start, end = entry.data_offsets
    tensor = Tensor(entry.dtype, tuple(entry.shape), end - start, file, contents_start + start)
    bits = DTYPE_BITS.get(entry.dtype)
    if start < 0 or end < start or min(tensor.shape, default=0) < 0:
        raise _damaged(file, f"the place of {name} makes no sense: {entry.data_offsets}")
    if bits is not None and tensor.num_elements * bits != tensor.size_bytes * 8:
        raise _damaged(file, f"{name} is {entry.dtype} {list(tensor.shape)}, which are not {tensor.size_bytes:,} bytes")
    if contents_start + end > file_bytes:
        raise CheckpointError(
            f"{file} is truncated: {name} ends at byte {contents_start + end:,}, and the file holds {file_bytes:,}",
            "fetch the checkpoint again",
        )
    return tensor


def encoded(tensors: dict[str, tuple[str, tuple[int, ...], int]]) -> bytes:
    """The start of a file that holds these tensors, one after the other: dtype, shape and bytes of each."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (dtype, shape, size_bytes) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + size_bytes]}
        end += size_bytes
    packed = msgspec.json.encode(header)
    packed += b" " * (-len(packed) % 8)
    return struct.pack("<Q", len(packed)) + packed


def _damaged(file: str, why: str) -> CheckpointError:
    return CheckpointError(f"{file} is no whole safetensors file: {why}", "fetch the checkpoint again")


def _gb(size_bytes: int) -> str:
    return f"{size_bytes / 1e9:,.1f} GB"
