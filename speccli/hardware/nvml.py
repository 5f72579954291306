"""The GPUs of this machine, by NVML, as CUDA_VISIBLE_DEVICES lets CUDA see them."""

import importlib
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from speccli.hardware import CpuInfo, Device, GpuProcess, shipped
from speccli.hardware.shipped import MIB, HardwareProfile

STICKER_TOLERANCE = 0.01


class Gpus(msgspec.Struct, frozen=True, kw_only=True):
    """What NVML told. No devices: none there, none visible, or NVML does not work (then a note says so)."""

    name: str = ""
    is_shipped: bool = False
    devices: tuple[Device, ...] = ()
    driver: str = ""
    driver_cuda: tuple[int, int] | None = None
    notes: tuple[str, ...] = ()


class _Slot(msgspec.Struct, frozen=True):
    """A GPU or a MIG slice of it; `parent` is the GPU's own handle."""

    handle: Any
    parent: Any
    index: int
    uuid: str


def read_gpus(environ: Mapping[str, str], host: CpuInfo, nvml: Any = None) -> Gpus:
    """`host` lends its memory to a GPU that has none of its own. `nvml`: pynvml, or what stands in for it."""
    nvml = nvml or importlib.import_module("pynvml")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError_LibraryNotFound:
        return Gpus()
    except nvml.NVMLError as error:
        return Gpus(notes=(f"NVML does not start: {error}",))
    try:
        return _read(nvml, environ.get("CUDA_VISIBLE_DEVICES"), host)
    except nvml.NVMLError as error:
        return Gpus(notes=(f"NVML does not answer: {error}",))
    finally:
        nvml.nvmlShutdown()


def _read(nvml: Any, visible: str | None, host: CpuInfo) -> Gpus:
    slots, notes = _select(nvml, _physical(nvml), visible)
    read = [_device(nvml, slot, host) for slot in slots]
    devices = tuple(device for device, _, _ in read)
    notes += [note for _, _, note in read if note]
    if len({device.name for device in devices}) > 1:
        notes.append("the GPUs differ: CUDA may number them otherwise; set CUDA_DEVICE_ORDER=PCI_BUS_ID")
    name = read[0][1] if read else None
    cuda = _ask(nvml, nvml.nvmlSystemGetCudaDriverVersion)
    return Gpus(
        name=name or (_slug(devices[0].name) if devices else ""),
        is_shipped=name is not None,
        devices=devices,
        driver=_ask(nvml, nvml.nvmlSystemGetDriverVersion) or "",
        driver_cuda=(cuda // 1000, cuda % 1000 // 10) if cuda else None,
        notes=tuple(dict.fromkeys(notes)),
    )


def _physical(nvml: Any) -> list[_Slot]:
    handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
    return [_Slot(handle, handle, index, nvml.nvmlDeviceGetUUID(handle)) for index, handle in enumerate(handles)]


def _select(nvml: Any, physical: list[_Slot], visible: str | None) -> tuple[list[_Slot], list[str]]:
    """As CUDA reads the variable: entries count up to the first that names nothing."""
    if visible is None:
        return [_first_slice(nvml, slot) for slot in physical], []
    chosen: list[_Slot] = []
    for entry in (part.strip() for part in visible.split(",")):
        slot = _named(nvml, physical, entry)
        if slot is None:
            return chosen, _unmatched(entry, bool(chosen)) if physical else []
        chosen.append(slot)
    return chosen, []


def _unmatched(entry: str, some_chosen: bool) -> list[str]:
    if entry not in ("", "-1"):
        return [f"CUDA_VISIBLE_DEVICES names {entry!r}, which is not there: CUDA ignores it and what follows"]
    return [] if some_chosen else [f"CUDA_VISIBLE_DEVICES={entry} hides every GPU"]


def _named(nvml: Any, physical: list[_Slot], entry: str) -> _Slot | None:
    if entry.isdigit():
        return _first_slice(nvml, physical[int(entry)]) if int(entry) < len(physical) else None
    if not entry.startswith(("GPU-", "MIG-")):
        return None
    candidates = physical if entry.startswith("GPU-") else [part for slot in physical for part in _slices(nvml, slot)]
    found = [slot for slot in candidates if slot.uuid.startswith(entry)]
    return found[0] if len(found) == 1 else None


def _first_slice(nvml: Any, slot: _Slot) -> _Slot:
    # CUDA uses one slice of a GPU in MIG mode, and never the GPU itself.
    return next(iter(_slices(nvml, slot)), slot)


def _slices(nvml: Any, slot: _Slot) -> list[_Slot]:
    mode = _ask(nvml, nvml.nvmlDeviceGetMigMode, slot.handle)
    if not mode or not mode[0]:
        return []
    handles = (
        _ask(nvml, nvml.nvmlDeviceGetMigDeviceHandleByIndex, slot.handle, index)
        for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(slot.handle))
    )
    return [_Slot(part, slot.handle, slot.index, nvml.nvmlDeviceGetUUID(part)) for part in handles if part is not None]


def _device(nvml: Any, slot: _Slot, host: CpuInfo) -> tuple[Device, str | None, str]:
    """The device, the name of its shipped profile, and what is to be said about its figures."""
    name = nvml.nvmlDeviceGetName(slot.handle)
    memory = _memory(nvml, slot.handle, host)
    found = shipped.match(name)
    base, note = _shipped(name, found[1], memory) if found else _generic(nvml, slot, name, memory)
    device = msgspec.structs.replace(
        base,
        index=slot.index,
        uuid=slot.uuid,
        used_bytes=max(0, base.total_bytes - memory.free),
        processes=_processes(nvml, slot.handle),
    )
    return device, found[0] if found else None, note


class _Memory(msgspec.Struct, frozen=True):
    total: int
    free: int
    reserved: int

    @property
    def cuda_total(self) -> int:
        """Without what the driver keeps: within about 0.5 % of CUDA's own figure on an L4 and an H100."""
        return self.total - self.reserved


def _memory(nvml: Any, handle: Any, host: CpuInfo) -> _Memory:
    second = _ask(nvml, nvml.nvmlDeviceGetMemoryInfo, handle, nvml.nvmlMemory_v2)
    if second:
        return _Memory(second.total, second.free, second.reserved)
    first = _ask(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
    if first:
        return _Memory(first.total, first.free, 0)
    # A GPU that shares the processor's memory, such as the GB10, has no answer.
    return _Memory(host.memory_total_bytes, host.memory_available_bytes, 0)


def _shipped(name: str, profile: HardwareProfile, memory: _Memory) -> tuple[Device, str]:
    device = profile.device(name)
    if abs(memory.total / (profile.nvml_mib * MIB) - 1) <= STICKER_TOLERANCE:
        return device, ""
    note = f"{name} has {memory.total / MIB:.0f} MiB here, {profile.nvml_mib} in the shipped figures: NVML's is taken"
    return msgspec.structs.replace(device, total_bytes=memory.cuda_total), note


def _generic(nvml: Any, slot: _Slot, name: str, memory: _Memory) -> tuple[Device, str]:
    is_slice = slot.handle is not slot.parent
    device = Device(
        name=name,
        total_bytes=memory.cuda_total,
        bandwidth_bytes_per_s=None if is_slice else _bandwidth(nvml, slot.handle),
        compute_capability=_ask(nvml, nvml.nvmlDeviceGetCudaComputeCapability, slot.parent),
        mig=name.partition(" MIG ")[2] if is_slice else "",
    )
    source = "bandwidth unknown" if device.bandwidth_bytes_per_s is None else "bandwidth from bus width and clock"
    return device, f"no shipped figures for {name}: memory from NVML, {source}, FLOP/s unknown"


def _bandwidth(nvml: Any, handle: Any) -> float | None:
    """Two transfers a clock over the whole bus: 5120 bits at 2619 MHz make an H100's 3352 GB/s."""
    width_bits = _ask(nvml, nvml.nvmlDeviceGetMemoryBusWidth, handle)
    clock_mhz = _ask(nvml, nvml.nvmlDeviceGetMaxClockInfo, handle, nvml.NVML_CLOCK_MEM)
    return 2 * clock_mhz * 1e6 * width_bits / 8 if width_bits and clock_mhz else None


def _processes(nvml: Any, handle: Any) -> tuple[GpuProcess, ...]:
    running = _ask(nvml, nvml.nvmlDeviceGetComputeRunningProcesses, handle) or []
    return tuple(
        GpuProcess(pid=process.pid, name=_process_name(nvml, process.pid), used_bytes=process.usedGpuMemory)
        for process in running
    )


def _process_name(nvml: Any, pid: int) -> str:
    name = _ask(nvml, nvml.nvmlSystemGetProcessName, pid) or ""
    return name.split(" ")[0].rpartition("/")[2]


def _ask(nvml: Any, question: Callable[..., Any], *arguments: Any) -> Any:
    """None where this GPU, driver or container does not answer."""
    try:
        return question(*arguments)
    except nvml.NVMLError:
        return None


def _slug(nvml_name: str) -> str:
    # The prefix keeps it apart from the names of shipped profiles.
    return "nvidia-" + re.sub(r"[^a-z0-9]+", "-", nvml_name.lower().removeprefix("nvidia ")).strip("-")
