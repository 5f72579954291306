"""How much memory a run may take: of a GPU what CUDA reports, of the processor what the system leaves."""

from __future__ import annotations

import math

import msgspec

from speccli.hardware import Device, Hardware
from speccli.plan.interval import GIB, Interval, gib

GPU_MEMORY_UTILIZATION = 0.92
"""vLLM's default (`vllm/config/cache.py`)."""

CPU_OVERHEAD_BYTES = int(1.5 * GIB)
"""What the engine's three processes hold on the CPU beside weights and KV cache: measured 1.3 GiB with SmolLM2-135M."""

CPU_OVERHEAD = Interval(GIB, CPU_OVERHEAD_BYTES)


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """Of one device."""

    device: str
    total_bytes: int
    free_bytes: int
    """Before the engine starts."""
    budget_bytes: int
    """vLLM's share: weights, activations, graphs and KV cache have to fit into it."""
    context: Interval
    """The CUDA context and NCCL, which come out of the rest."""

    @property
    def is_free(self) -> bool:
        """vLLM refuses to start where its share is not free (`v1/worker/utils.py: request_memory`)."""
        return self.free_bytes - self.context.low >= self.budget_bytes

    @property
    def surely_free_bytes(self) -> int:
        return max(0, self.free_bytes - self.context.high)

    @property
    def largest_utilization(self) -> float:
        """That passes the check at the start, in whole percents."""
        return math.floor(100 * self.surely_free_bytes / self.total_bytes) / 100


def of_gpu(hardware: Hardware, tensor_parallel_size: int, utilization: float | None) -> Budget:
    """The fullest of the devices that are used: the KV cache is as large as the smallest of them allows."""
    used = hardware.devices[:tensor_parallel_size]
    share = utilization or GPU_MEMORY_UTILIZATION
    tightest = min(used, key=lambda device: (device.free_bytes, device.total_bytes))
    return of_device(tightest, tensor_parallel_size, share)


def of_device(device: Device, tensor_parallel_size: int, share: float) -> Budget:
    """`v1/worker/utils.py: request_memory`."""
    return Budget(
        device=device.name,
        total_bytes=device.total_bytes,
        free_bytes=device.free_bytes,
        budget_bytes=math.ceil(device.total_bytes * share),
        context=gib(0.19, 0.55) if tensor_parallel_size == 1 else gib(0.4, 2.2),
    )


def of_cpu(hardware: Hardware, tensor_parallel_size: int) -> Budget:
    """The system's memory or a cgroup's limit, a part of it for each worker.

    vLLM binds a worker's memory to the NUMA node that it runs on, so only the node's part is certain (`cpu_worker.py`).
    """
    cpu, workers = hardware.cpu, tensor_parallel_size
    total, free = (cpu.memory_total_bytes, cpu.memory_available_bytes) if cpu else (0, 0)
    total, share = total // workers, free // workers
    nodes = cpu.numa_nodes if cpu else 1
    certain = free // nodes // math.ceil(workers / nodes)
    return Budget(
        device=cpu.model if cpu else "the processor",
        total_bytes=total,
        free_bytes=share,
        budget_bytes=share,
        context=Interval(0, share - certain),
    )
