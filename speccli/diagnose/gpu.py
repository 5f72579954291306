"""Rules about the GPUs of this machine: the driver, who holds their memory, and slices of them."""

from speccli.diagnose import Finding
from speccli.diagnose.facts import Facts
from speccli.hardware import Device
from speccli.plan import GPU_MEMORY_UTILIZATION
from speccli.plan.interval import GIB, MIB

SMALLEST_MEMORY_SHARE = 0.1


def driver(facts: Facts) -> Finding | None:
    """A driver runs programs made for its own major version of CUDA and the older ones."""
    known = facts.machine.driver_cuda
    if facts.machine.kind == "cpu" or known is None:
        return None
    evidence = f"{facts.machine.driver}, knows CUDA up to {known[0]}.{known[1]}"
    built = facts.torch.cuda if facts.torch else None
    if built is None or int(built.split(".")[0]) <= known[0]:
        return Finding(id="env.driver", severity="ok", title="driver", evidence=evidence)
    return Finding(
        id="env.driver",
        severity="error",
        title="driver",
        evidence=evidence,
        cause=f"torch is built for CUDA {built}",
        fix=f"update the NVIDIA driver to one that knows CUDA {built.split('.')[0]}",
        stops_runs=True,
    )


def gpu_memory(facts: Facts) -> Finding | None:
    """vLLM takes a share of all the memory, not of the free memory, and stops where that much is not free."""
    if facts.machine.kind == "cpu" or facts.runs_on_cpu:
        return None
    tightest = min(facts.machine.devices, key=_free_share)
    free = f"{tightest.free_bytes / GIB:.1f} of {tightest.total_bytes / GIB:.1f} GiB free"
    if _free_share(tightest) >= GPU_MEMORY_UTILIZATION:
        return Finding(id="env.gpu-memory", severity="ok", title="GPU memory", evidence=free)
    share = int(100 * _free_share(tightest) - 2) / 100
    ways = ["end what holds it"]
    if len(facts.machine.devices) > 1:
        ways.append("leave this GPU out with CUDA_VISIBLE_DEVICES")
    if share >= SMALLEST_MEMORY_SHARE:
        ways.append(f"set gpu_memory_utilization to {share:.2f} at most")
    return Finding(
        id="env.gpu-memory",
        severity="warning",
        title="GPU memory",
        evidence=f"GPU {tightest.index}: {free}{_holders(tightest)}",
        cause=f"vLLM asks for {GPU_MEMORY_UTILIZATION:.0%} of the whole unless told otherwise",
        fix=", or ".join(ways),
    )


def mig(facts: Facts) -> Finding | None:
    """A GPU cut into slices: CUDA hands out one of them, and no program can use two."""
    slices = [device for device in facts.machine.devices if device.mig]
    if not slices or facts.runs_on_cpu:
        return None
    return Finding(
        id="env.mig",
        severity="info",
        title="MIG",
        evidence=f"GPU {slices[0].index} is cut into slices, and {slices[0].mig} is used",
        cause="its memory and speed are a part of the GPU's, and several slices do not work together",
        fix="CUDA_VISIBLE_DEVICES=MIG-... for another slice; the administrator can switch MIG off",
    )


def _free_share(device: Device) -> float:
    return device.free_bytes / device.total_bytes


def _holders(device: Device) -> str:
    holders = [
        f"{process.pid} {process.name or '?'} {_mib(process.used_bytes)}".rstrip() for process in device.processes
    ]
    return f"; held by {', '.join(holders)}" if holders else ""


def _mib(used_bytes: int | None) -> str:
    return "" if used_bytes is None else f"({used_bytes / MIB:,.0f} MiB)"
