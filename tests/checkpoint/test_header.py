"""Safetensors headers: what they say, and one message for each way in which a file is not one."""

import contextlib
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speccli.checkpoint import header
from speccli.checkpoint.header import Tensor
from speccli.errors import CheckpointError
from tests.tiny_files import write_safetensors


def _file(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def _with_header(table: Any, contents: bytes = b"") -> bytes:
    packed = json.dumps(table).encode()
    return struct.pack("<Q", len(packed)) + packed + contents


def test_names_types_shapes_and_places_come_from_the_header(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    write_safetensors(
        path, {"a": np.ones((2, 3), np.float32), "b": np.array([1], np.int64), "c": np.zeros(0, np.float16)}
    )
    tensors = header.read_file(path)
    start = path.stat().st_size - 32
    assert tensors == {
        "a": Tensor("F32", (2, 3), 24, "model.safetensors", start),
        "b": Tensor("I64", (1,), 8, "model.safetensors", start + 24),
        "c": Tensor("F16", (0,), 0, "model.safetensors", start + 32),
    }
    assert [tensor.num_elements for tensor in tensors.values()] == [6, 1, 0]


def test_what_the_safetensors_library_writes_is_read_alike(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    path = tmp_path / "model.safetensors"
    save_file({"x": np.arange(6, dtype=np.int64).reshape(2, 3)}, path, {"format": "pt"})
    (tensor,) = header.read_file(path).values()
    assert (tensor.dtype, tensor.shape) == ("I64", (2, 3))
    assert tensor.start_bytes is not None
    raw = path.read_bytes()[tensor.start_bytes : tensor.start_bytes + tensor.size_bytes]
    assert np.frombuffer(raw, np.int64).tolist() == [0, 1, 2, 3, 4, 5]


def test_what_is_written_here_is_read_by_the_safetensors_library(tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    path = tmp_path / "model.safetensors"
    write_safetensors(path, {"x": np.arange(4, dtype=np.float32)})
    assert load_file(path)["x"].tolist() == [0.0, 1.0, 2.0, 3.0]


def test_one_range_is_enough_for_a_small_header_and_two_for_a_large_one(tmp_path: Path) -> None:
    asked: list[tuple[int, int]] = []

    def reader(content: bytes) -> header.ReadRange:
        def read(offset: int, size: int) -> bytes:
            asked.append((offset, size))
            return content[offset : offset + size]

        return read

    small = _with_header({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, bytes(4))
    header.read_ranges(reader(small), len(small), "small")
    assert asked == [(0, len(small))]
    asked.clear()
    names = {f"tensor.{i:06}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for i in range(6000)}
    large = _with_header(names)
    assert len(header.read_ranges(reader(large), len(large), "large")) == 6000
    assert asked == [(0, 262_144), (262_144, len(large) - 262_144)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "bad.safetensors is no whole safetensors file: it holds 0 bytes"),
        (
            struct.pack("<Q", 10_000_000_000) + b"{}",
            "bad.safetensors is no whole safetensors file: its header claims 10.0 GB, and 0.1 GB is the most that the "
            "format allows",
        ),
        (
            struct.pack("<Q", 500) + b"{}",
            "bad.safetensors is no whole safetensors file: its header claims 500 bytes, and the file holds 10",
        ),
        (
            _with_header([1, 2]),
            "bad.safetensors is no whole safetensors file: its header is no table of tensors: Expected `object`, got "
            "`array`",
        ),
        (
            _with_header({"w": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}, bytes(9)),
            "bad.safetensors is truncated: w ends at byte 89, and the file holds 82",
        ),
        (
            _with_header({"w": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 12]}}, bytes(12)),
            "bad.safetensors is no whole safetensors file: w is F32 [2, 2], which are not 12 bytes",
        ),
        (
            _with_header({"w": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}}, bytes(8)),
            "bad.safetensors is no whole safetensors file: the place of w makes no sense: (4, 0)",
        ),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
            "bad.safetensors is a Git LFS pointer, not the weights",
        ),
    ],
    ids=["empty", "10 GB", "long header", "no table", "truncated", "wrong size", "backwards", "pointer"],
)
def test_each_damage_has_its_own_message(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        header.read_file(_file(tmp_path / "bad.safetensors", content))
    assert caught.value.message == message
    assert caught.value.hint


def test_a_range_that_comes_back_short_is_told(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="its header ends after 8 of 308 bytes"):
        header.read_ranges(lambda offset, size: struct.pack("<Q", 300)[offset:], 1000, "cut.safetensors")


def test_a_file_that_is_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="cannot be read: No such file or directory"):
        header.read_file(tmp_path / "none.safetensors")


@given(st.binary(max_size=300))
def test_no_table_whatever_raises_anything_else(table: bytes) -> None:
    content = struct.pack("<Q", len(table)) + table
    with contextlib.suppress(CheckpointError):
        header.read_ranges(lambda offset, size: content[offset : offset + size], len(content), "any")
