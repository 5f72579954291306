"""The GPUs that a run would get on a machine, and their figures."""

from pathlib import Path
from types import ModuleType

import pytest

from speccli.hardware import CpuInfo, GpuProcess, Hardware, detect
from tests.hardware.fake_nvml import MIB, FakeGpu, FakeNvml, LibraryNotFoundError, NvmlError, l4

GIB = 2**30

HOST = CpuInfo(
    model="AMD EPYC",
    architecture="x86_64",
    physical_cores=8,
    usable_cpus=16,
    memory_total_bytes=64 * GIB,
    memory_available_bytes=60 * GIB,
)


def detected(*gpus: FakeGpu, visible: str | None = None) -> Hardware:
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    return detect(environ, nvml=FakeNvml(*gpus), cpu=HOST)


def test_a_known_gpu_gets_its_shipped_figures_and_memory_as_cuda_reports_it() -> None:
    hardware = detected(l4())
    (device,) = hardware.devices
    assert (hardware.kind, hardware.name, hardware.source) == ("cuda", "l4", "detected")
    assert device.total_bytes == 22559 * MIB
    assert device.bandwidth_bytes_per_s == 300e9
    assert device.bf16_flops == 121e12
    assert device.fp8_flops == 242e12
    assert device.compute_capability == (8, 9)
    assert hardware.unverified == ("bf16_tflops", "fp8_tflops")
    assert hardware.notes == ()


def test_the_driver_is_told_with_the_newest_cuda_that_it_knows() -> None:
    hardware = detected(l4())
    assert hardware.driver == "580.95.05"
    assert hardware.driver_cuda == (13, 0)


def test_the_processor_comes_along_with_the_gpus() -> None:
    assert detected(l4()).cpu == HOST


def test_the_memory_of_several_gpus_is_added_up() -> None:
    assert detected(l4("GPU-1"), l4("GPU-2")).total_bytes == 2 * 22559 * MIB


def test_an_idle_gpu_is_free_to_the_last_byte() -> None:
    (device,) = detected(l4()).devices
    assert device.used_bytes == 0
    assert device.free_bytes == 22559 * MIB


def test_memory_that_other_processes_hold_is_told_with_their_names() -> None:
    gpu = l4(used_mib=5604, processes=((4242, "/usr/bin/python3 serve.py", 5600 * MIB), (7, None, None)))
    (device,) = detected(gpu).devices
    assert device.free_bytes == (23034 - 471 - 5604) * MIB
    assert device.processes == (
        GpuProcess(pid=4242, name="python3", used_bytes=5600 * MIB),
        GpuProcess(pid=7, name="", used_bytes=None),
    )


@pytest.mark.parametrize(
    ("nvml_name", "total_mib", "name"),
    [
        ("NVIDIA L40S", 46068, "l40s"),
        ("NVIDIA H100 80GB HBM3", 81559, "h100"),
        ("NVIDIA H100 PCIe", 81559, "h100-pcie"),
        ("NVIDIA H100 NVL", 95830, "h100-nvl"),
        ("NVIDIA A100-SXM4-40GB", 40960, "a100-40"),
        ("NVIDIA A100-PCIE-40GB", 40960, "a100-40"),
        ("NVIDIA A100-SXM4-80GB", 81920, "a100-80"),
        ("NVIDIA A100 80GB PCIe", 81920, "a100-80-pcie"),
        ("NVIDIA H200", 143771, "h200"),
        ("Tesla T4", 15360, "t4"),
        ("NVIDIA L40", 46068, "nvidia-l40"),
        ("NVIDIA H200 NVL", 143771, "nvidia-h200-nvl"),
        ("NVIDIA GeForce RTX 3090 Ti", 24564, "nvidia-geforce-rtx-3090-ti"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", 16376, "nvidia-geforce-rtx-4090-laptop-gpu"),
    ],
)
def test_names_are_matched_whole(nvml_name: str, total_mib: int, name: str) -> None:
    assert detected(FakeGpu(nvml_name, total_mib, "GPU-1")).name == name


def test_an_unknown_gpu_gets_what_nvml_knows_and_says_so() -> None:
    gpu = FakeGpu(
        "NVIDIA H100 64GB", 65536, "GPU-1", reserved_mib=500, capability=(9, 0), bus_bits=5120, clock_mhz=2619
    )
    hardware = detected(gpu)
    (device,) = hardware.devices
    assert hardware.name == "nvidia-h100-64gb"
    assert device.total_bytes == (65536 - 500) * MIB
    assert device.bandwidth_bytes_per_s == 2 * 2619e6 * 5120 / 8
    assert device.bf16_flops is None
    assert device.compute_capability == (9, 0)
    assert hardware.settings == {}
    assert hardware.notes == (
        "no shipped figures for NVIDIA H100 64GB: memory from NVML, bandwidth from bus width and clock, FLOP/s unknown",
    )


def test_an_older_driver_gives_no_reserved_memory_and_its_total_has_to_do() -> None:
    nvml = FakeNvml(FakeGpu("NVIDIA X1", 8192, "GPU-1", reserved_mib=300), has_memory_v2=False)
    (device,) = detect({}, nvml=nvml, cpu=HOST).devices
    assert device.total_bytes == 8192 * MIB
    assert device.bandwidth_bytes_per_s is None


def test_a_known_gpu_with_other_memory_keeps_its_figures_but_not_its_memory() -> None:
    hardware = detected(FakeGpu("Tesla T4", 16384, "GPU-1", reserved_mib=300))
    (device,) = hardware.devices
    assert hardware.name == "t4"
    assert device.total_bytes == (16384 - 300) * MIB
    assert device.bandwidth_bytes_per_s == 320e9
    assert hardware.notes == ("Tesla T4 has 16384 MiB here, 15360 in the shipped figures: NVML's is taken",)


def test_a_gpu_without_memory_of_its_own_shares_the_machines() -> None:
    (device,) = detected(FakeGpu("NVIDIA GB10", None, "GPU-1")).devices
    assert device.total_bytes == 64 * GIB
    assert device.free_bytes == 60 * GIB


def test_only_a_t4_lacks_bfloat16_here() -> None:
    t4 = FakeGpu("Tesla T4", 15360, "GPU-2")
    assert [device.has_bf16 for device in detected(l4(), t4).devices] == [True, False]


@pytest.mark.parametrize(
    ("visible", "uuids", "notes"),
    [
        (None, ["GPU-aa1", "GPU-ab2", "GPU-cc3"], ()),
        ("1", ["GPU-ab2"], ()),
        ("2,0", ["GPU-cc3", "GPU-aa1"], ()),
        (" 0 , 1 ", ["GPU-aa1", "GPU-ab2"], ()),
        ("GPU-ab2", ["GPU-ab2"], ()),
        ("GPU-c", ["GPU-cc3"], ()),
        ("0,-1,1", ["GPU-aa1"], ()),
        ("", [], ("CUDA_VISIBLE_DEVICES= hides every GPU",)),
        ("-1", [], ("CUDA_VISIBLE_DEVICES=-1 hides every GPU",)),
        (
            "0,7,1",
            ["GPU-aa1"],
            ("CUDA_VISIBLE_DEVICES names '7', which is not there: CUDA ignores it and what follows",),
        ),
        ("GPU-a", [], ("CUDA_VISIBLE_DEVICES names 'GPU-a', which is not there: CUDA ignores it and what follows",)),
        ("MIG-77", [], ("CUDA_VISIBLE_DEVICES names 'MIG-77', which is not there: CUDA ignores it and what follows",)),
    ],
)
def test_cuda_visible_devices_is_read_as_cuda_reads_it(
    visible: str | None, uuids: list[str], notes: tuple[str, ...]
) -> None:
    hardware = detected(l4("GPU-aa1"), l4("GPU-ab2"), l4("GPU-cc3"), visible=visible)
    assert [device.uuid for device in hardware.devices] == uuids
    assert hardware.notes == notes
    assert hardware.kind == ("cuda" if uuids else "cpu")


def test_an_empty_cuda_visible_devices_means_nothing_where_there_is_no_gpu() -> None:
    assert detected(visible="").notes == ()


def test_the_index_is_the_physical_one() -> None:
    assert [device.index for device in detected(l4("GPU-1"), l4("GPU-2"), visible="1").devices] == [1]


def test_gpus_that_differ_are_warned_about() -> None:
    hardware = detected(l4(), FakeGpu("Tesla T4", 15360, "GPU-2"))
    assert hardware.notes == ("the GPUs differ: CUDA may number them otherwise; set CUDA_DEVICE_ORDER=PCI_BUS_ID",)


def sliced_h100() -> FakeGpu:
    small = FakeGpu("NVIDIA H100 80GB HBM3 MIG 1g.10gb", 9856, "MIG-aaaa")
    large = FakeGpu("NVIDIA H100 80GB HBM3 MIG 2g.20gb", 20096, "MIG-bbbb", reserved_mib=100)
    return FakeGpu("NVIDIA H100 80GB HBM3", 81559, "GPU-1", capability=(9, 0), slices=(small, large))


def test_a_mig_slice_has_the_memory_of_the_slice_and_the_capability_of_the_gpu() -> None:
    hardware = detected(sliced_h100(), visible="MIG-bb")
    (device,) = hardware.devices
    assert device.mig == "2g.20gb"
    assert device.total_bytes == (20096 - 100) * MIB
    assert device.compute_capability == (9, 0)
    assert device.bandwidth_bytes_per_s is None
    assert hardware.name == "nvidia-h100-80gb-hbm3-mig-2g-20gb"
    assert hardware.notes == (
        "no shipped figures for NVIDIA H100 80GB HBM3 MIG 2g.20gb: memory from NVML, bandwidth unknown, FLOP/s unknown",
    )


@pytest.mark.parametrize("visible", [None, "0"])
def test_of_a_sliced_gpu_cuda_sees_the_first_slice(visible: str | None) -> None:
    assert [device.uuid for device in detected(sliced_h100(), visible=visible).devices] == ["MIG-aaaa"]


def test_without_nvml_there_is_the_processor() -> None:
    hardware = detect({}, nvml=FakeNvml(fails=LibraryNotFoundError("NVML Shared Library Not Found")), cpu=HOST)
    assert (hardware.kind, hardware.name, hardware.total_bytes) == ("cpu", "cpu", 64 * GIB)
    assert hardware.notes == ()


def test_an_nvml_that_does_not_start_is_told() -> None:
    nvml = FakeNvml(l4(), fails=NvmlError("Driver/library version mismatch"))
    hardware = detect({}, nvml=nvml, cpu=HOST)
    assert hardware.kind == "cpu"
    assert hardware.notes == ("NVML does not start: Driver/library version mismatch",)


def test_an_nvml_that_fails_later_is_told_and_closed() -> None:
    class LostGpu(FakeNvml):
        def nvmlDeviceGetUUID(self, gpu: FakeGpu) -> str:
            raise NvmlError("GPU is lost")

    nvml = LostGpu(l4())
    assert detect({}, nvml=nvml, cpu=HOST).notes == ("NVML does not answer: GPU is lost",)
    assert not nvml.is_open


def test_nvml_is_closed_after_use() -> None:
    nvml = FakeNvml(l4())
    detect({}, nvml=nvml, cpu=HOST)
    assert not nvml.is_open


def test_the_fake_has_no_function_that_pynvml_lacks() -> None:
    pynvml: ModuleType = pytest.importorskip("pynvml")
    used = [name for name in dir(FakeNvml) if name.lower().startswith("nvml")]
    assert [name for name in used if not hasattr(pynvml, name)] == []
    assert Path(pynvml.__file__ or "").name == "pynvml.py"
