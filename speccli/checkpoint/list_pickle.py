"""Lists the tensors of .bin and .pt files as JSON: {file: {tensor: [dtype, shape, bytes]}}.

A program of its own (files as arguments), since only torch reads these pickles safely, and takes seconds to import.
`weights_only` lets nothing but tensors and plain containers come out; contents stay on the disk.
"""

import json
import sys
from typing import Any

DTYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2",
    "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip


def load(path: str) -> dict[str, Any]:
    """The tensors of one file by name; what is no tensor is left out."""
    import torch

    try:
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except RuntimeError as error:  # of before torch 1.6: no zip archive, so not mappable
        if "mmap" not in str(error):
            raise
        state = torch.load(path, map_location="cpu", weights_only=True)
    if not isinstance(state, dict):
        raise ValueError(f"it holds a {type(state).__name__}, not tensors by name")
    return {name: value for name, value in state.items() if isinstance(value, torch.Tensor)}


def dtype_name(tensor: Any) -> str:
    name = str(tensor.dtype).removeprefix("torch.")
    return DTYPES.get(name, name.upper())


def listing(path: str) -> dict[str, tuple[str, list[int], int]]:
    return {
        name: (dtype_name(tensor), list(tensor.shape), tensor.numel() * tensor.element_size())
        for name, tensor in load(path).items()
    }


def main() -> None:
    try:
        print(json.dumps({path: listing(path) for path in sys.argv[1:]}))  # noqa: T201
    except Exception as error:
        sys.exit(f"{type(error).__name__}: {str(error).splitlines()[0]}")


if __name__ == "__main__":
    main()
