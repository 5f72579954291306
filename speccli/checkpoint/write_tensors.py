"""Appends the contents of tensors to a safetensors file whose header stands already.

A program of its own (its job as JSON on stdin), so that its memory goes back when it ends. It copies bytes; torch comes
in only for pickles, through the weights-only loader, and for arithmetic. A place is {file, start, size, dtype, shape}
in a safetensors file, or {file, tensor, ...} in a pickle.
"""

import functools
import json
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO

CHUNK_BYTES = 16 << 20

TORCH_DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}

Place = dict[str, Any]


def contents(recipe: dict[str, Any]) -> Iterator[bytes]:
    """The bytes of one tensor, piece by piece."""
    size = recipe["size_bytes"]
    match recipe["kind"]:
        case "copy":
            yield from _bytes(recipe["tensor"], size)
        case "resize":
            have = min(size, recipe["tensor"]["size"])
            yield from _bytes(recipe["tensor"], have)
            yield bytes(size - have)
        case "zeros":
            yield bytes(size)
        case "fold":
            yield _folded(recipe)
        case kind:
            raise ValueError(f"no recipe is called {kind}")


def _bytes(place: Place, size: int) -> Iterator[bytes]:
    if "tensor" in place:
        yield _raw(_pickle(place["file"])[place["tensor"]])[:size]
        return
    with open(place["file"], "rb") as file:  # noqa: PTH123
        file.seek(place["start"])
        while size > 0:
            piece = file.read(min(size, CHUNK_BYTES))
            if not piece:
                raise ValueError(f"{place['file']} ends before its tensors do")
            size -= len(piece)
            yield piece


def _folded(recipe: dict[str, Any]) -> bytes:
    product = _tensor(recipe["tensor"]).float() @ _tensor(recipe["vector"]).float()
    if recipe["plus"] is not None:
        product = product + _tensor(recipe["plus"]).float()
    return _raw(product.to(_dtype(recipe["dtype"])))


def _tensor(place: Place) -> Any:
    import torch

    if "tensor" in place:
        return _pickle(place["file"])[place["tensor"]]
    raw = bytearray(b"".join(_bytes(place, place["size"])))
    return torch.frombuffer(raw, dtype=_dtype(place["dtype"])).reshape(place["shape"])


def _raw(tensor: Any) -> bytes:
    import torch

    return bytes(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())


def _dtype(name: str) -> Any:
    import torch

    return getattr(torch, TORCH_DTYPES[name])


@functools.cache
def _pickle(path: str) -> dict[str, Any]:
    import torch

    try:
        return dict(torch.load(path, map_location="cpu", weights_only=True, mmap=True))
    except RuntimeError as error:  # of before torch 1.6: no zip archive, so not mappable
        if "mmap" not in str(error):
            raise
        return dict(torch.load(path, map_location="cpu", weights_only=True))


def write(job: dict[str, Any], output: BinaryIO) -> None:
    for recipe in job["recipes"]:
        start = output.tell()
        for piece in contents(recipe):
            output.write(piece)
        if output.tell() - start != recipe["size_bytes"]:
            raise ValueError(
                f"{recipe['name']} came out with {output.tell() - start} bytes, not {recipe['size_bytes']}"
            )


def main() -> None:
    job = json.load(sys.stdin)
    try:
        with open(job["output"], "ab") as output:  # noqa: PTH123
            write(job, output)
    except Exception as error:
        sys.exit(f"{type(error).__name__}: {str(error).splitlines()[0]}")


if __name__ == "__main__":
    main()
