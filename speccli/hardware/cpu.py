"""The processor and the memory of this machine, read from /proc and /sys."""

import os
import platform
import re
from collections.abc import Collection
from pathlib import Path

from speccli.hardware import CpuInfo
from speccli.hardware.cgroup import read_limits

FLAGS = ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_bf16", "asimd", "bf16", "i8mm", "sve")


def read_cpu(
    root: Path = Path("/"), *, affinity: Collection[int] | None = None, architecture: str | None = None
) -> CpuInfo:
    """`root` holds proc/ and sys/; where it holds neither, as on macOS, what Python knows must do."""
    cpus = _affinity() if affinity is None else affinity
    limits = read_limits(root)
    machine_bytes, available_bytes = _memory(root)
    core_cpus = _one_cpu_per_core(root, cpus)
    is_limited = limits.memory_limit_bytes is not None and limits.memory_limit_bytes < machine_bytes
    free_bytes = available_bytes if limits.memory_free_bytes is None else limits.memory_free_bytes
    return CpuInfo(
        model=_model(root),
        architecture=architecture or platform.machine(),
        physical_cores=len(core_cpus),
        core_cpus=core_cpus,
        usable_cpus=min(len(cpus), max(1, int(limits.quota_cpus or len(cpus)))),
        numa_nodes=max(1, len(list((root / "sys/devices/system/node").glob("node[0-9]*")))),
        flags=_flags(root),
        quota_cpus=limits.quota_cpus,
        memory_total_bytes=min(machine_bytes, limits.memory_limit_bytes or machine_bytes),
        memory_available_bytes=min(available_bytes, free_bytes),
        memory_limit_bytes=limits.memory_limit_bytes if is_limited else None,
    )


def _affinity() -> Collection[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return range(os.cpu_count() or 1)


def _model(root: Path) -> str:
    return _first(root / "proc/cpuinfo", "model name") or platform.processor() or "unknown processor"


def _flags(root: Path) -> tuple[str, ...]:
    file = root / "proc/cpuinfo"
    present = set((_first(file, "flags") or _first(file, "Features")).split())
    return tuple(flag for flag in FLAGS if flag in present)


def _one_cpu_per_core(root: Path, cpus: Collection[int]) -> tuple[int, ...]:
    """Hyper-threads of one core share its package and core number."""
    cores: dict[tuple[str, str], int] = {}
    for cpu in sorted(cpus):
        topology = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
        package, core = topology / "physical_package_id", topology / "core_id"
        if not core.is_file():
            return tuple(sorted(cpus))
        cores.setdefault((package.read_text().strip(), core.read_text().strip()), cpu)
    return tuple(cores.values())


def _memory(root: Path) -> tuple[int, int]:
    """Total and available, in bytes."""
    file = root / "proc/meminfo"
    total = _first(file, "MemTotal")
    if not total:
        total_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return total_bytes, total_bytes
    available = _first(file, "MemAvailable") or total
    return int(total.split()[0]) * 1024, int(available.split()[0]) * 1024


def _first(file: Path, key: str) -> str:
    """The value on the first line of that key; empty where there is none."""
    if not file.is_file():
        return ""
    found = re.search(rf"^{re.escape(key)}\s*:\s*(.*)$", file.read_text(), re.MULTILINE)
    return found[1].strip() if found else ""
