"""What fits, and what the engine is told: pure arithmetic on values."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
import pytest

from speccli.checkpoint import Checkpoint, Checkpoints
from speccli.errors import MachineError
from speccli.hardware import CpuInfo, Device, Hardware
from speccli.pairing import Pairing
from speccli.plan import CPU_OVERHEAD_BYTES, GIB, Plan, fit
from speccli.plan.arguments import engine_arguments
from speccli.profile import DEFAULTS, Layer, Profile, Settings
from speccli.source import FolderSource

SMOLLM2 = Checkpoint(
    name="smollm2-135m",
    path="/models/smollm2",
    dtype="bfloat16",
    weight_bytes=269_060_552,
    kv_elements_per_token=2 * 30 * 3 * 64,
    max_position_embeddings=8192,
)

NGRAM = Pairing(
    "smollm2-135m", FolderSource("/models/smollm2"), "ngram", 4, "no weights", config={"prompt_lookup_max": 4}
)
DRAFT = Pairing(
    "smollm2-135m", FolderSource("/models/smollm2"), "draft_model", 3, "itself", speculator="x", speculator_source=FolderSource("/models/draft")
)  # fmt: skip
PLAIN = Pairing("smollm2-135m", FolderSource("/models/smollm2"), "none", 0, "asked for")


def cpu(available_gib: float = 16.0, flags: tuple[str, ...] = ("avx2",)) -> Hardware:
    info = CpuInfo(
        model="A processor", architecture="x86_64", physical_cores=4, usable_cpus=4, flags=flags,
        memory_total_bytes=32 * GIB, memory_available_bytes=int(available_gib * GIB),
    )  # fmt: skip
    return Hardware(kind="cpu", name="cpu", source="named", cpu=info)


def plan(
    pairing: Pairing = NGRAM, hardware: Hardware | None = None, speculator: Checkpoint | None = None, **settings: Any
) -> Plan:
    profile = Profile(Settings(), {}).over(Layer(Settings(**settings), "typed"), Layer(DEFAULTS, "default"))
    return fit(profile, hardware or cpu(), pairing, Checkpoints(SMOLLM2, speculator))


def test_float32_is_chosen_where_the_processor_has_no_bfloat16() -> None:
    assert plan().engine_arguments["dtype"] == "float32"
    assert plan(hardware=cpu(flags=("avx512f", "avx512_bf16"))).engine_arguments["dtype"] == "auto"
    assert plan(dtype="bfloat16").engine_arguments["dtype"] == "bfloat16"


def test_weights_are_counted_in_the_dtype_of_the_run() -> None:
    assert plan(dtype="bfloat16").weight_bytes == 269_060_552
    assert plan(dtype="float32").weight_bytes == 2 * 269_060_552


def test_a_draft_models_weights_and_kv_layers_add_up() -> None:
    both = plan(DRAFT, speculator=SMOLLM2, dtype="bfloat16", kv_cache_gib=1)
    assert both.weight_bytes == 2 * 269_060_552
    # vLLM's blocks on the CPU hold 128 tokens
    assert both.kv_tokens == GIB // (128 * 2 * 2 * 30 * 3 * 64 * 2) * 128


@pytest.mark.parametrize(("rows", "extra"), [(128, {"enable_weights_track": False}), (49152, None), (None, None)])
def test_medusa_heads_of_a_reduced_vocabulary_are_not_stopped_by_vllms_count_of_weights(
    rows: int | None, extra: dict[str, bool] | None
) -> None:
    pairing = msgspec.structs.replace(DRAFT, method="medusa")
    head = msgspec.structs.replace(SMOLLM2, config={} if rows is None else {"truncated_vocab_size": rows})
    target = msgspec.structs.replace(SMOLLM2, config={"vocab_size": 49152})
    arguments = engine_arguments(Settings(), cpu(), pairing, Checkpoints(target, head))
    assert arguments.get("model_loader_extra_config") == extra


def test_the_kv_cache_is_what_the_requests_can_use() -> None:
    # 2 x 30 layers x 3 heads x 64 x 4 bytes = 46,080 bytes a token; 16 x 8,192 tokens are 5.6 GiB
    assert plan(hardware=cpu(64), max_num_seqs=16).kv_cache_bytes == 6 * GIB
    assert plan(max_num_seqs=1).kv_cache_bytes == 1 * GIB


def test_the_kv_cache_takes_at_most_a_quarter_of_the_free_memory() -> None:
    assert plan(hardware=cpu(16), max_num_seqs=16).kv_cache_bytes == 4 * GIB
    assert plan(hardware=cpu(16), kv_cache_gib=7).kv_cache_bytes == 7 * GIB


def test_a_cache_too_small_for_one_request_is_refused() -> None:
    with pytest.raises(
        MachineError,
        match=r"one request of 131,072 tokens takes 5\.6 GiB of KV cache, and 1\.0 GiB are set aside for it",
    ) as caught:
        plan(max_model_len=131072, kv_cache_gib=1)
    assert "--max-model-len" in caught.value.hint


def test_too_little_memory_is_refused_with_the_sum() -> None:
    with pytest.raises(MachineError, match=r"engine 1\.0 GiB need 2\.5 GiB, and 2\.0 GiB are free"):
        plan(hardware=cpu(2.0), max_model_len=1024, max_num_seqs=1)
    assert int(1.5 * GIB) == CPU_OVERHEAD_BYTES


def test_the_context_is_the_models_but_no_longer_than_8192() -> None:
    assert plan().max_model_len == 8192
    assert plan(max_model_len=500).max_model_len == 500


def test_the_engine_is_told_the_method_and_each_requests_counts_are_asked_for() -> None:
    arguments = plan().engine_arguments
    assert arguments["speculative_config"] == {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4}
    assert arguments["per_request_spec_decode_metrics"] == "summary"


def test_plain_decoding_tells_nothing_of_speculation() -> None:
    assert not {"speculative_config", "per_request_spec_decode_metrics"} & set(plan(PLAIN).engine_arguments)


def test_what_stands_under_engine_goes_over_what_speccli_says() -> None:
    assert plan(engine={"block_size": 64}).engine_arguments["block_size"] == 64


def test_the_processors_settings_are_in_the_environment_of_the_engine() -> None:
    environment = plan(max_num_seqs=1, threads_bind="0-3", preload=False).environment
    assert environment == {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "0-3"}


def test_preloaded_libraries_go_before_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD", "/lib/own.so")
    monkeypatch.setattr("speccli.plan.arguments.find_openmp", lambda: Path("/venv/lib/libiomp5.so"))
    monkeypatch.setattr("speccli.plan.arguments.find_tcmalloc", lambda: None)
    assert plan(max_num_seqs=1).environment["LD_PRELOAD"] == "/venv/lib/libiomp5.so:/lib/own.so"


L4 = Hardware(kind="cuda", name="l4", source="named", devices=(Device(name="NVIDIA L4", total_bytes=22559 * 2**20),))


def test_a_gpu_gets_none_of_the_processors_settings_and_vllms_own_number_of_requests() -> None:
    assert plan(hardware=L4).environment == {}
    assert "max_num_seqs" not in plan(hardware=L4).engine_arguments


def test_a_gpus_kv_cache_is_what_the_budget_leaves() -> None:
    made = plan(hardware=L4, dtype="bfloat16")
    # Without a config: weights, up to 0.5 % more, and 0.3 to 2 GiB for the engine
    budget = math.ceil(0.92 * 22559 * 2**20)
    low = budget - int(269_060_552 * 1.005) - 2 * GIB
    high = budget - 269_060_552 - int(0.3 * GIB)
    assert made.kv_cache_bytes == (low + high) // 2


def test_weights_larger_than_the_gpus_budget_are_refused() -> None:
    huge = msgspec.structs.replace(SMOLLM2, weight_bytes=30 * GIB)
    with pytest.raises(MachineError, match=r"does not fit l4: weights 30\.0 GiB"):
        fit(Profile(Settings(dtype="bfloat16"), {"dtype": "typed"}), L4, PLAIN, Checkpoints(huge))
