"""The hardware profiles that speccli ships, in profiles/hardware/: found by their name, or by NVML's name for a GPU."""

import difflib
import functools
import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

import msgspec

from speccli import paths
from speccli.errors import UsageError
from speccli.hardware import CpuInfo, Device, Hardware
from speccli.hardware.cpu import read_cpu

MIB = 2**20


class HardwareProfile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file of profiles/hardware/. A GPU has every figure that its data sheet has; the processor has none."""

    kind: Literal["cuda", "cpu"]
    nvml_names: tuple[str, ...] = ()
    """Whole names as NVML spells them; `*` and `?` may stand for a part."""
    total_mib: int = 0
    """What CUDA reports."""
    nvml_mib: int = 0
    """What nvidia-smi shows."""
    bandwidth_gb_per_s: float | None = None
    bf16_tflops: float | None = None
    """Dense, as are the other two."""
    fp16_tflops: float | None = None
    fp8_tflops: float | None = None
    compute_capability: tuple[int, int] | None = None
    unverified: tuple[str, ...] = ()
    """Fields of this file taken from a data sheet or derived, not read from a running machine."""
    settings: dict[str, Any] = {}
    """Settings of a run, by the names that a user's profile has for them."""

    def device(self, name: str, index: int = 0) -> Device:
        return Device(
            name=name,
            index=index,
            total_bytes=self.total_mib * MIB,
            bandwidth_bytes_per_s=_times(self.bandwidth_gb_per_s, 1e9),
            bf16_flops=_times(self.bf16_tflops, 1e12),
            fp16_flops=_times(self.fp16_tflops, 1e12),
            fp8_flops=_times(self.fp8_tflops, 1e12),
            compute_capability=self.compute_capability,
        )


def names() -> tuple[str, ...]:
    return tuple(sorted(file.stem for file in _folder().glob("*.yaml")))


def profile(name: str) -> HardwareProfile:
    """The shipped profile of that name; it has to be one of `names()`."""
    file = _folder() / f"{name}.yaml"
    try:
        return msgspec.yaml.decode(file.read_bytes(), type=HardwareProfile)
    except msgspec.MsgspecError as error:
        raise UsageError(f"{file}: {error}", "compare it with the other files of that folder") from error


@functools.cache
def match(nvml_name: str) -> tuple[str, HardwareProfile] | None:
    """The shipped profile that lists this NVML name."""
    for name in names():
        shipped = profile(name)
        if any(fnmatchcase(nvml_name, pattern) for pattern in shipped.nvml_names):
            return name, shipped
    return None


def named(spec: str, cpu: CpuInfo | None = None) -> Hardware:
    """`l4`, `h100x2`: shipped figures. `cpu`: the processor and memory of this machine, whatever GPUs it has."""
    name, count = _parse(spec)
    shipped = profile(name)
    if shipped.kind == "cpu":
        return Hardware(kind="cpu", name=name, source="named", cpu=cpu or read_cpu(), settings=shipped.settings)
    title = shipped.nvml_names[0]
    return Hardware(
        kind="cuda",
        name=name,
        source="named",
        devices=tuple(shipped.device(title, index) for index in range(count)),
        settings=shipped.settings,
        unverified=shipped.unverified,
    )


def _parse(spec: str) -> tuple[str, int]:
    known = names()
    found = re.fullmatch(r"(.+?)(?:x([1-9]\d?))?", spec.strip().lower())
    name, count = (found[1], int(found[2] or 1)) if found else ("", 1)
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        guess = f"did you mean {near[0]}? " if near else ""
        raise UsageError(f"no hardware is called {spec!r}", f"{guess}`speccli profiles list` shows the names")
    if name == "cpu" and count > 1:
        raise UsageError(f"{spec!r}: there is one processor", "write cpu")
    return name, count


def _folder() -> Path:
    return paths.profiles_dir() / "hardware"


def _times(value: float | None, unit: float) -> float | None:
    return None if value is None else value * unit
