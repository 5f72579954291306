"""A machine with GPUs, as pynvml would tell it."""

from types import SimpleNamespace
from typing import Any, TypeVar

T = TypeVar("T")
MIB = 2**20


class NvmlError(Exception):
    pass


class LibraryNotFoundError(NvmlError):
    pass


class FakeGpu:
    """One GPU, or one slice: what NVML answers about it. None: NVML refuses to answer."""

    def __init__(
        self,
        name: str,
        total_mib: int | None,
        uuid: str,
        *,
        reserved_mib: int = 0,
        used_mib: int = 0,
        capability: tuple[int, int] = (8, 9),
        bus_bits: int | None = None,
        clock_mhz: int | None = None,
        processes: tuple[tuple[int, str | None, int | None], ...] = (),
        slices: tuple["FakeGpu", ...] = (),
    ) -> None:
        self.name, self.total_mib, self.uuid = name, total_mib, uuid
        self.reserved_mib, self.used_mib, self.capability = reserved_mib, used_mib, capability
        self.bus_bits, self.clock_mhz, self.processes, self.slices = bus_bits, clock_mhz, processes, slices


def l4(uuid: str = "GPU-1111", **other: Any) -> FakeGpu:
    return FakeGpu("NVIDIA L4", 23034, uuid, reserved_mib=471, **other)


class FakeNvml:
    """Stands in for the module pynvml, with the functions that speccli calls."""

    NVMLError = NvmlError
    NVMLError_LibraryNotFound = LibraryNotFoundError
    NVML_CLOCK_MEM = 2
    nvmlMemory_v2 = 0x2000028

    def __init__(self, *gpus: FakeGpu, fails: NvmlError | None = None, has_memory_v2: bool = True) -> None:
        self.gpus, self.fails, self.has_memory_v2 = gpus, fails, has_memory_v2
        self.is_open = False

    def nvmlInit(self) -> None:
        if self.fails:
            raise self.fails
        self.is_open = True

    def nvmlShutdown(self) -> None:
        self.is_open = False

    def nvmlSystemGetDriverVersion(self) -> str:
        return "580.95.05"

    def nvmlSystemGetCudaDriverVersion(self) -> int:
        return 13000

    def nvmlSystemGetProcessName(self, pid: int) -> str:
        names = {entry[0]: entry[1] for gpu in self.gpus for entry in gpu.processes}
        return _answer(names[pid])

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGpu:
        return self.gpus[index]

    def nvmlDeviceGetUUID(self, gpu: FakeGpu) -> str:
        return gpu.uuid

    def nvmlDeviceGetName(self, gpu: FakeGpu) -> str:
        return gpu.name

    def nvmlDeviceGetMemoryInfo(self, gpu: FakeGpu, version: int | None = None) -> SimpleNamespace:
        if version and not self.has_memory_v2:
            raise NvmlError("Function Not Found")
        total_mib = _answer(gpu.total_mib)
        free_mib = total_mib - gpu.reserved_mib - gpu.used_mib
        return SimpleNamespace(total=total_mib * MIB, free=free_mib * MIB, reserved=gpu.reserved_mib * MIB)

    def nvmlDeviceGetCudaComputeCapability(self, gpu: FakeGpu) -> tuple[int, int]:
        return gpu.capability

    def nvmlDeviceGetMemoryBusWidth(self, gpu: FakeGpu) -> int:
        return _answer(gpu.bus_bits)

    def nvmlDeviceGetMaxClockInfo(self, gpu: FakeGpu, kind: int) -> int:
        assert kind == self.NVML_CLOCK_MEM
        return _answer(gpu.clock_mhz)

    def nvmlDeviceGetComputeRunningProcesses(self, gpu: FakeGpu) -> list[SimpleNamespace]:
        return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, _, used in gpu.processes]

    def nvmlDeviceGetMigMode(self, gpu: FakeGpu) -> list[int]:
        return [int(bool(gpu.slices))] * 2

    def nvmlDeviceGetMaxMigDeviceCount(self, gpu: FakeGpu) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, gpu: FakeGpu, index: int) -> FakeGpu:
        return _answer(gpu.slices[index] if index < len(gpu.slices) else None)


def _answer(value: T | None) -> T:
    if value is None:
        raise NvmlError("Not Supported")
    return value
