"""Hardware: what this machine has, or what a machine that is not here would have."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal

import msgspec


class GpuProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A process that holds memory of a GPU. Inside a container NVML may give no name, or no figure."""

    pid: int
    name: str = ""
    used_bytes: int | None = None


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU, or one MIG slice of a GPU. None: not known."""

    name: str
    total_bytes: int
    """As CUDA reports it, which is what vLLM takes a share of. NVML's total is larger."""
    bandwidth_bytes_per_s: float | None = None
    bf16_flops: float | None = None
    """Dense, per second; so are the other two."""
    fp16_flops: float | None = None
    """Given where it is not the figure of bfloat16."""
    fp8_flops: float | None = None
    compute_capability: tuple[int, int] | None = None
    uuid: str = ""
    index: int = 0
    """NVML's index of the physical GPU."""
    mig: str = ""
    """The profile of the slice, such as "2g.20gb"."""
    used_bytes: int = 0
    processes: tuple[GpuProcess, ...] = ()

    @property
    def free_bytes(self) -> int:
        return max(0, self.total_bytes - self.used_bytes)

    @property
    def has_bf16(self) -> bool:
        return self.compute_capability is None or self.compute_capability >= (8, 0)


class CpuInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The processor and the memory, as far as this process may use them."""

    model: str
    architecture: str
    physical_cores: int
    """Among the CPUs that the process may run on."""
    usable_cpus: int
    """Logical CPUs: the affinity, and the whole CPUs of a cgroup's quota."""
    core_cpus: tuple[int, ...] = ()
    """One logical CPU of each of those cores."""
    numa_nodes: int = 1
    flags: tuple[str, ...] = ()
    """The instruction sets that matter to vLLM, by the kernel's names."""
    quota_cpus: float | None = None
    memory_total_bytes: int
    memory_available_bytes: int
    memory_limit_bytes: int | None = None
    """The cgroup's limit, where it is below the machine's memory."""

    @property
    def has_bf16(self) -> bool:
        return not {"avx512_bf16", "amx_bf16", "bf16"}.isdisjoint(self.flags)


class Hardware(msgspec.Struct, frozen=True, kw_only=True):
    """What a run is planned for: GPUs of this machine, its processor, or a machine named by the user."""

    kind: Literal["cuda", "cpu"]
    name: str
    """A shipped profile's name, or a name made from NVML's that no shipped profile has."""
    source: Literal["detected", "named"]
    devices: tuple[Device, ...] = ()
    cpu: CpuInfo | None = None
    """None where only the GPUs are known, as on a named machine."""
    driver: str = ""
    driver_cuda: tuple[int, int] | None = None
    """The newest CUDA that the driver knows."""
    settings: dict[str, Any] = {}
    """Defaults of a run on this hardware, from the shipped profile."""
    unverified: tuple[str, ...] = ()
    """Fields of the shipped profile whose values were not read from a running machine."""
    notes: tuple[str, ...] = ()

    @property
    def total_bytes(self) -> int:
        """The memory that weights and KV cache have to share, over all devices."""
        if self.kind == "cuda":
            return sum(device.total_bytes for device in self.devices)
        return self.cpu.memory_total_bytes if self.cpu else 0


def detect(environ: Mapping[str, str] = os.environ, *, nvml: Any = None, cpu: CpuInfo | None = None) -> Hardware:
    """This machine: the GPUs that CUDA_VISIBLE_DEVICES leaves, else the processor. `nvml` stands in for pynvml."""
    from speccli.hardware.cpu import read_cpu
    from speccli.hardware.nvml import read_gpus
    from speccli.hardware.shipped import profile

    host = cpu or read_cpu()
    gpus = read_gpus(environ, host, nvml)
    if gpus.devices:
        shipped = profile(gpus.name) if gpus.is_shipped else None
        return Hardware(
            kind="cuda",
            name=gpus.name,
            source="detected",
            devices=gpus.devices,
            cpu=host,
            driver=gpus.driver,
            driver_cuda=gpus.driver_cuda,
            settings=shipped.settings if shipped else {},
            unverified=shipped.unverified if shipped else (),
            notes=gpus.notes,
        )
    return Hardware(
        kind="cpu", name="cpu", source="detected", cpu=host, settings=profile("cpu").settings, notes=gpus.notes
    )


def resolve(spec: str | None = None, environ: Mapping[str, str] = os.environ) -> Hardware:
    """The hardware of that name, or this machine's where none is named."""
    from speccli.hardware.shipped import named

    return detect(environ) if spec is None else named(spec)
