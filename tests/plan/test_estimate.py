"""Whether a pairing of the catalogue fits a machine, and what its memory goes to."""

from __future__ import annotations

import msgspec
import pytest

from speccli.errors import MachineError, UsageError
from speccli.hardware import Device, Hardware
from speccli.hardware.shipped import named
from speccli.plan.interval import GIB
from tests.plan.example import cpu, estimated, planned

LLAMA = "llama-3.1-8b-bf16"


def test_five_medusa_heads_beside_an_8b_model_in_bf16_do_not_fit_an_l4() -> None:
    made = estimated("l4", target=LLAMA, method="medusa", num_speculative_tokens=5)
    assert made.verdict == "does_not_fit"
    # 5 heads of 4096 x 4096 and 128256 x 4096 in 16 bits
    assert made.bytes["draft_weights"].low == 5 * (4096 * 4096 + 128256 * 4096) * 2
    assert round(made.bytes["draft_weights"].low / GIB, 2) == 5.05
    assert made.kv_tokens.low == 0
    assert made.max_model_len_that_fits == 0
    assert made.runner == "V1"


def test_the_same_target_with_an_eagle3_head_fits_in_a_shorter_context() -> None:
    made = estimated("l4", target=LLAMA, method="eagle3", max_num_seqs=64, max_model_len=16384)
    assert made.verdict == "fits"
    assert round(made.bytes["target_weights"].low / GIB, 1) == 15.0
    assert round(made.bytes["draft_weights"].low / GIB, 2) == 0.79
    # 33 layers x 8 heads x 128 x 2 x 2 bytes
    assert made.kv_bytes_per_token == 33 * 8 * 128 * 2 * 2
    assert round(made.draft_kv_share, 4) == round(1 / 33, 4)
    assert made.kv_tokens.low < 26_000 < made.kv_tokens.high
    assert estimated("l4", target=LLAMA, method="eagle3", max_model_len=131072).verdict == "does_not_fit"


@pytest.mark.parametrize(
    ("machine", "settings", "verdict"),
    [
        ("l4", {"target": LLAMA, "method": "none", "max_model_len": 8192}, "fits"),
        ("l4", {"target": LLAMA, "method": "none", "max_model_len": 131072}, "does_not_fit"),
        ("h100", {"target": LLAMA, "method": "none", "max_model_len": 131072}, "fits"),
        ("h100", {"target": LLAMA, "method": "medusa"}, "fits"),
        ("h100", {"target": "llama-3.3-70b-bf16", "method": "none"}, "does_not_fit"),
        ("h100x2", {"target": "llama-3.3-70b-bf16", "method": "none", "tensor_parallel_size": 2}, "fits"),
        (
            "h100x2",
            {"target": "llama-3.3-70b-bf16", "method": "none", "tensor_parallel_size": 2, "max_model_len": 32768},
            "tight",
        ),
        ("l4", {"target": LLAMA, "method": "none", "max_model_len": 32768}, "tight"),
        ("h100x4", {"target": "llama-3.3-70b-bf16", "method": "eagle3", "tensor_parallel_size": 4}, "fits"),
        ("t4", {"target": "qwen3-8b-bf16", "method": "none"}, "does_not_fit"),
        ("l4", {"target": "gpt-oss-120b", "method": "none"}, "does_not_fit"),
    ],
)
def test_whether_it_fits(machine: str, settings: dict[str, object], verdict: str) -> None:
    assert estimated(machine, **settings).verdict == verdict


def test_two_devices_hold_half_of_the_weights_each() -> None:
    one = estimated("h100", target=LLAMA, method="none").bytes["target_weights"].low
    two = estimated("h100x2", target=LLAMA, method="none", tensor_parallel_size=2).bytes["target_weights"].low
    assert abs(two - one / 2) < 0.02 * GIB


def test_more_devices_than_there_are_is_said_with_the_number() -> None:
    with pytest.raises(MachineError) as caught:
        estimated("l4", target=LLAMA, tensor_parallel_size=4)
    assert caught.value.message == "tensor_parallel_size is 4, and l4 has 1 device"
    assert caught.value.hint == "--tensor-parallel-size 1, or a machine with more devices"


def test_heads_that_the_devices_do_not_divide_are_refused() -> None:
    with pytest.raises(UsageError) as caught:
        estimated("l4x3", target=LLAMA, tensor_parallel_size=3)
    assert caught.value.message == (
        "tensor_parallel_size is 3, and llama-3.1-8b-bf16 has 32 attention heads, which it does not divide"
    )
    assert caught.value.hint == "--tensor-parallel-size 2"


def test_what_another_process_holds_keeps_vllm_from_starting() -> None:
    l4 = named("l4").devices[0]
    held = Hardware(
        kind="cuda", name="l4", source="detected", devices=(msgspec.structs.replace(l4, used_bytes=8 * GIB),)
    )
    made = estimated(held, target="qwen3-1.7b-bf16", method="none")
    assert made.verdict == "does_not_fit"
    assert made.problem == "vLLM asks for 20.3 GiB of 22.0 GiB at the start, and 13.8 GiB are free"
    assert made.largest_utilization == 0.61
    assert estimated(held, target="qwen3-1.7b-bf16", method="none", gpu_memory_utilization=0.6).verdict == "fits"


def test_a_given_size_of_the_kv_cache_is_taken_as_it_is() -> None:
    made = estimated("l4", target="qwen3-1.7b-bf16", method="none", kv_cache_gib=2.5)
    assert (made.kv_cache.low, made.kv_cache.high) == (int(2.5 * GIB), int(2.5 * GIB))
    assert made.verdict == "fits"
    assert estimated("l4", target="qwen3-1.7b-bf16", method="none", kv_cache_gib=21.0).verdict == "does_not_fit"


EIGHT_BITS = {"target": "qwen3-8b-fp8", "method": "eagle3", "max_model_len": 16384}


def test_a_kv_cache_too_large_for_the_gpu_is_refused_with_the_sum() -> None:
    made = estimated("l4", **EIGHT_BITS, kv_cache_gib=15)
    assert made.verdict == "does_not_fit"
    assert made.problem == (
        "weights 8.8 GiB, speculator 0.7 GiB, KV cache 15.0 GiB and engine 0.4 GiB need 24.9 GiB, and 21.8 GiB are free"
    )
    assert made.max_model_len_that_fits == 0


def test_a_kv_cache_that_may_be_too_large_for_the_gpu_is_tight() -> None:
    made = estimated("l4", **EIGHT_BITS, kv_cache_gib=10.3)
    assert (made.verdict, made.max_model_len_that_fits) == ("tight", 0)
    assert made.problem == "weights, KV cache and engine may need 22.1 GiB, and 21.5 GiB are free"


def test_a_kv_cache_too_small_for_a_request_is_told_as_it_was_set() -> None:
    made = estimated("l4", **EIGHT_BITS, kv_cache_gib=0.1)
    assert made.problem == ("one request of 16,384 tokens takes 2.3 GiB of KV cache, and 0.1 GiB are set aside for it")


def test_sizes_that_are_almost_equal_have_the_digits_that_tell_them_apart() -> None:
    made = estimated("l4", target="vicuna-7b", method="none", max_model_len=2048, kv_cache_gib=1)
    assert made.problem == ("one request of 2,048 tokens takes 1.01 GiB of KV cache, and 1.00 GiB are set aside for it")


def test_vllms_share_has_to_be_free_beside_a_given_kv_cache_too() -> None:
    """`v1/worker/utils.py: request_memory` looks at the share in either case."""
    made = estimated("l4", **EIGHT_BITS, kv_cache_gib=4, gpu_memory_utilization=1.0)
    assert made.problem == "vLLM asks for 22.0 GiB of 22.0 GiB at the start, and 21.8 GiB are free"


def test_eager_saves_the_graphs_and_eight_bits_half_of_the_kv_cache() -> None:
    plain = estimated("l4", target="qwen3-4b-bf16", method="eagle3")
    assert plain.bytes["graphs"].high > 0
    assert estimated("l4", target="qwen3-4b-bf16", method="eagle3", enforce_eager=True).bytes["graphs"].high == 0
    eight = estimated("l4", target="qwen3-4b-bf16", method="eagle3", kv_cache_dtype="fp8")
    assert eight.kv_bytes_per_token * 2 == plain.kv_bytes_per_token


def test_what_is_not_modelled_well_is_said_and_widens_the_interval() -> None:
    made = estimated("h100", target="qwen3-30b-a3b-bf16", method="none")
    assert made.doubts == ("mixture of experts",)
    dense = estimated("h100", target="qwen3-14b-bf16", method="none")
    assert dense.doubts == ()
    width, narrow = (one.kv_cache.high - one.kv_cache.low for one in (made, dense))
    assert width > narrow + GIB


def test_gpt_ossens_experts_are_padded_by_their_kernels() -> None:
    made = estimated("h100", target="gpt-oss-20b", method="none")
    assert made.bytes["target_weights"].high / made.bytes["target_weights"].low == pytest.approx(1.07, abs=0.01)


def test_on_the_processor_the_free_memory_decides_and_a_numa_node_makes_it_tight() -> None:
    settings = {"target": "qwen3-1.7b-bf16", "method": "none", "max_model_len": 4096, "max_num_seqs": 1}
    assert estimated(cpu(16), **settings).verdict == "fits"
    assert estimated(cpu(4), **settings).verdict == "does_not_fit"
    halved = estimated(cpu(10, nodes=2), **settings)
    assert halved.verdict == "tight"
    assert "of one NUMA node" in halved.problem


BOTH = {"target": "qwen3-1.7b-bf16", "method": "none", "max_model_len": 4096, "max_num_seqs": 1}


def test_on_the_processor_each_worker_has_a_numa_node_of_its_own() -> None:
    with pytest.raises(MachineError) as caught:
        estimated(cpu(16), **BOTH, tensor_parallel_size=2)
    assert caught.value.message == "tensor_parallel_size is 2, and cpu has 1 NUMA node"
    assert caught.value.hint.startswith("--tensor-parallel-size 1, or threads_bind in the profile ")
    with pytest.raises(MachineError):
        estimated(cpu(16), **BOTH, tensor_parallel_size=2, threads_bind="auto")
    with pytest.raises(UsageError):
        estimated(cpu(64, nodes=3), **BOTH, tensor_parallel_size=3)


def test_on_the_processor_the_workers_share_the_memory() -> None:
    """Each takes half of the weights, and a KV cache and an engine of its own."""
    made = estimated(cpu(16, nodes=2), **BOTH, tensor_parallel_size=2)
    assert (made.verdict, made.num_devices, made.total_bytes) == ("fits", 2, 8 * GIB)
    assert planned(cpu(16, nodes=2), **BOTH, tensor_parallel_size=2).kv_cache_bytes == 2 * GIB
    little = estimated(cpu(6, nodes=2), **BOTH, tensor_parallel_size=2)
    assert little.verdict == "does_not_fit"
    assert little.problem.endswith(" need 3.6 GiB, and 3.0 GiB are free for each of 2 workers")


def test_on_the_processor_workers_that_are_bound_by_hand_share_a_node() -> None:
    bound = {**BOTH, "tensor_parallel_size": 2, "threads_bind": "0-3|4-7"}
    assert estimated(cpu(16), **bound).verdict == "fits"
    made = estimated(cpu(8), **bound)
    assert made.verdict == "tight"
    assert made.problem.endswith(" 4.0 GiB are free for each of 2 workers")


def test_on_the_processor_nothing_is_taken_for_graphs() -> None:
    made = estimated(cpu(16), target="qwen3-1.7b-bf16", method="none", max_num_seqs=1)
    assert made.bytes["graphs"].high == 0
    assert made.block_size == 128
    assert made.kv_tokens.low == made.kv_tokens.high


def test_devices_are_judged_by_the_fullest() -> None:
    device = Device(name="A GPU", total_bytes=24 * GIB)
    held = msgspec.structs.replace(device, used_bytes=12 * GIB)
    both = Hardware(kind="cuda", name="pair", source="detected", devices=(device, held))
    made = estimated(both, target="qwen3-1.7b-bf16", method="none", tensor_parallel_size=2)
    assert made.verdict == "does_not_fit"
