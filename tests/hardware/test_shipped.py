"""The shipped hardware profiles, and machines named by the user."""

import msgspec
import pytest

from speccli.errors import UsageError
from speccli.hardware import CpuInfo, resolve
from speccli.hardware.shipped import MIB, HardwareProfile, match, named, names, profile

GPUS = [name for name in names() if name != "cpu"]

HOST = CpuInfo(
    model="AMD EPYC",
    architecture="x86_64",
    physical_cores=2,
    usable_cpus=2,
    memory_total_bytes=8 * 2**30,
    memory_available_bytes=6 * 2**30,
)


def test_the_common_machines_are_there() -> None:
    expected = {"l4", "a10g", "t4", "a100-40", "a100-80", "l40s", "h100", "h100-nvl", "h200", "b200", "cpu"}
    assert expected | {"rtx-3090", "rtx-4090", "rtx-5090"} <= set(names())


@pytest.mark.parametrize("name", GPUS)
def test_a_gpu_has_every_figure_that_a_plan_needs(name: str) -> None:
    shipped = profile(name)
    assert shipped.kind == "cuda"
    assert 0 < shipped.total_mib < shipped.nvml_mib
    assert shipped.bandwidth_gb_per_s
    assert shipped.bf16_tflops or shipped.fp16_tflops
    assert shipped.compute_capability


@pytest.mark.parametrize("name", GPUS)
def test_bfloat16_and_fp8_are_given_just_where_the_capability_has_them(name: str) -> None:
    shipped = profile(name)
    assert shipped.compute_capability is not None
    assert (shipped.bf16_tflops is not None) == (shipped.compute_capability >= (8, 0))
    assert (shipped.fp8_tflops is not None) == (shipped.compute_capability >= (8, 9))


@pytest.mark.parametrize("name", names())
def test_what_is_unverified_is_a_figure_of_the_file(name: str) -> None:
    shipped = profile(name)
    assert [field for field in shipped.unverified if not getattr(shipped, field)] == []


def test_no_nvml_name_belongs_to_two_profiles() -> None:
    listed = [nvml_name for name in GPUS for nvml_name in profile(name).nvml_names]
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize("name", GPUS)
def test_each_listed_nvml_name_leads_back_to_its_profile(name: str) -> None:
    assert [match(nvml_name) for nvml_name in profile(name).nvml_names] == [(name, profile(name))] * len(
        profile(name).nvml_names
    )


def test_part_of_a_name_is_no_match() -> None:
    assert match("NVIDIA L4 24GB") is None
    assert match("L4") is None


def test_a_named_machine_has_the_shipped_figures() -> None:
    hardware = named("l4")
    (device,) = hardware.devices
    assert (hardware.kind, hardware.name, hardware.source) == ("cuda", "l4", "named")
    assert hardware.total_bytes == 22559 * MIB
    assert (device.name, device.free_bytes) == ("NVIDIA L4", 22559 * MIB)
    assert hardware.cpu is None


def test_a_count_multiplies_the_devices() -> None:
    hardware = named("H100x2")
    assert [device.index for device in hardware.devices] == [0, 1]
    assert hardware.total_bytes == 2 * 81080 * MIB
    assert hardware.name == "h100"


def test_the_x_of_a_name_is_no_count() -> None:
    assert named("rtx-3090").name == "rtx-3090"
    assert len(named("rtx-3090x4").devices) == 4


def test_cpu_is_the_processor_at_hand_whatever_gpus_there_are() -> None:
    hardware = named("cpu", cpu=HOST)
    assert (hardware.kind, hardware.source, hardware.cpu) == ("cpu", "named", HOST)
    assert hardware.total_bytes == 8 * 2**30


def test_a_misspelt_name_gets_the_nearest_one_as_hint() -> None:
    with pytest.raises(UsageError) as caught:
        named("rtx4090")
    assert caught.value.message == "no hardware is called 'rtx4090'"
    assert caught.value.hint == "did you mean rtx-4090? `speccli profiles list` shows the names"


@pytest.mark.parametrize("spec", ["", "zzzzzz", "l4x0", "l4x", "../cpu"])
def test_what_is_no_name_is_refused(spec: str) -> None:
    with pytest.raises(UsageError, match="no hardware is called"):
        named(spec)


def test_there_is_one_processor() -> None:
    with pytest.raises(UsageError, match="there is one processor"):
        named("cpux2")


def test_resolve_takes_the_named_machine() -> None:
    assert resolve("h200").devices[0].total_bytes == 143155 * MIB


def test_an_unknown_key_in_a_profile_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="memory_gb"):
        msgspec.yaml.decode(b"kind: cuda\nmemory_gb: 24\n", type=HardwareProfile)


def test_a_profile_may_carry_settings() -> None:
    text = b"kind: cpu\nsettings: {dtype: float32, max_num_seqs: 4}\n"
    assert msgspec.yaml.decode(text, type=HardwareProfile).settings == {"dtype": "float32", "max_num_seqs": 4}
