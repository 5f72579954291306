"""Findings of the memory plan, of precision and of speculation's sense."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from speccli.diagnose import Finding, exit_code
from speccli.diagnose.plan import Outlook, outlook
from speccli.diagnose.sight import look
from speccli.diagnose.speculation import sense, speculation
from speccli.errors import ExitCode
from speccli.hardware.shipped import named
from speccli.plan import Plan
from tests import tiny
from tests.plan.example import asked, estimated, planned


def looked(machine: str, **settings: Any) -> Outlook:
    profile = asked(**settings)
    return outlook(profile, look(profile, named(machine)), "speccli pull")


def finding(made: Outlook, name: str) -> Finding:
    return next(one for one in made.group.findings if one.id == name)


def about(plan: Plan) -> dict[str, Finding]:
    return {one.id: one for one in speculation(plan, sense(plan)).findings}


LLAMA = "llama-3.1-8b-bf16"


def test_what_fits_is_told_with_its_tokens_and_needs_nothing() -> None:
    made = looked("h100", target=LLAMA, method="eagle3")
    told = finding(made, "plan.memory")
    assert told.severity == "ok"
    assert told.evidence.startswith("fits h100: ")
    assert "KV tokens" in told.evidence
    assert made.fixes == ()
    assert exit_code(made.group.findings) is ExitCode.DONE


def test_what_does_not_fit_stops_with_the_cause_and_the_first_fix() -> None:
    made = looked("l4", target=LLAMA, method="medusa", num_speculative_tokens=5)
    told = finding(made, "plan.memory")
    assert (told.severity, told.stops_runs) == ("error", True)
    assert told.evidence == "does not fit l4"
    assert told.cause.startswith("weights 15.0 GiB, speculator 5.0 GiB and the engine leave at most ")
    assert told.fix == made.fixes[0].told
    assert exit_code(made.group.findings) is ExitCode.MACHINE


def test_what_is_tight_is_a_warning() -> None:
    made = looked("h100x2", target="llama-3.3-70b-bf16", method="none", tensor_parallel_size=2, max_model_len=32768)
    told = finding(made, "plan.memory")
    assert (told.severity, told.stops_runs) == ("warning", False)
    assert told.evidence.startswith("is tight on 2 x h100")
    assert exit_code(made.group.findings) is ExitCode.FINDINGS


def test_a_share_that_cannot_be_free_is_told_with_the_largest_that_is() -> None:
    made = looked("l4", target="qwen3-1.7b-bf16", method="none", gpu_memory_utilization=0.98)
    assert finding(made, "plan.utilization").fix == "--gpu-memory-utilization 0.97"


@pytest.mark.parametrize("machine", ["l4", "a10g", "rtx-4090", "a100-40", "h100"])
def test_the_largest_share_that_is_sure_to_be_free_is_not_told(machine: str) -> None:
    most = estimated(machine, target="qwen3-1.7b", method="none").largest_utilization
    made = looked(machine, target="qwen3-1.7b", method="none", gpu_memory_utilization=most)
    assert not [one for one in made.group.findings if one.id == "plan.utilization"]


def test_a_share_is_told_with_all_its_digits() -> None:
    made = looked("l4", target="qwen3-1.7b", method="none", gpu_memory_utilization=0.979)
    evidence = finding(made, "plan.utilization").evidence
    assert evidence == "gpu_memory_utilization 0.979, and up to 0.97 is sure to be free"


def test_heads_that_the_devices_do_not_divide_have_a_cause_of_their_own() -> None:
    told = finding(looked("l4x8", target="qwen3-8b", tensor_parallel_size=3), "plan.devices")
    assert told.cause == "vLLM gives every part of a model as many attention heads as the others"
    told = finding(looked("l4", target="qwen3-8b", tensor_parallel_size=2), "plan.devices")
    assert told.cause == "each part of the target needs a device of its own"


def test_too_few_devices_are_an_error_with_no_plan() -> None:
    made = looked("l4", target=LLAMA, tensor_parallel_size=2)
    assert made.plan is None
    assert finding(made, "plan.devices").stops_runs


def test_a_context_beyond_the_models_own_is_refused() -> None:
    made = looked("h100", target="qwen3-8b-bf16", method="none", max_model_len=50000)
    assert finding(made, "plan.context").fix == "--max-model-len 40960"
    made = looked("h100", target=LLAMA, method="none", max_model_len=140000)
    assert finding(made, "plan.context").evidence == "140,000 tokens, and llama-3.1-8b-bf16 was made for 131,072"
    made = looked("h100", target="gpt-oss-20b", method="none", max_model_len=140000)
    assert finding(made, "plan.context").fix == "--max-model-len 131072"


def test_positions_that_are_scaled_make_the_models_own_context_longer(tmp_path: Path) -> None:
    linear = {"rope_type": "linear", "factor": 4.0}
    target = tiny.llama(tmp_path / "target", max_position_embeddings=512, rope_scaling=linear)
    made = looked("l4", target=str(target), method="none", max_model_len=1024)
    assert not [one for one in made.group.findings if one.id == "plan.context"]


def test_sizes_that_nobody_knows_are_said_with_the_command_that_fetches_them() -> None:
    made = looked("l4", target="somebody/something", method="ngram")
    assert made.plan is None
    told = finding(made, "plan.unknown")
    assert (told.severity, told.fix) == ("info", "speccli pull")


def test_a_folder_is_planned_from_its_own_config_and_files(tmp_path: Path) -> None:
    target = tiny.llama(tmp_path / "target")
    made = looked("l4", target=str(target), method="none")
    assert made.plan is not None
    assert made.plan.estimate is not None
    assert made.plan.estimate.verdict == "fits"
    assert finding(made, "plan.memory").severity == "ok"


def test_memory_that_vllm_does_not_plan_for_is_told() -> None:
    made = looked("l4", target=LLAMA, method="medusa", max_num_seqs=1024, gpu_memory_utilization=0.97)
    told = finding(made, "plan.outside-budget")
    assert "medusa logits 1.5 GiB" in told.evidence


def test_a_given_kv_cache_leaves_the_rest_of_the_gpu_and_not_that_of_a_share() -> None:
    crowded: dict[str, Any] = {
        "target": "llama-3.1-8b-fp8", "method": "medusa", "max_model_len": 2048, "max_num_seqs": 512,
        "gpu_memory_utilization": 0.97,
    }  # fmt: skip
    assert finding(looked("l4", **crowded), "plan.outside-budget").fix.endswith("a lower --gpu-memory-utilization")
    assert finding(looked("l4", **crowded, kv_cache_gib=6), "plan.outside-budget").fix.endswith(
        "a smaller kv_cache_gib"
    )
    made = looked("l4", **crowded, kv_cache_gib=1)
    assert not [one for one in made.group.findings if one.id == "plan.outside-budget"]


def test_padding_of_the_kv_cache_is_told() -> None:
    made = looked("h100x2", target="qwen3.6-35b-a3b-bf16", method="dflash", tensor_parallel_size=2)
    assert finding(made, "plan.kv-padding").evidence == "14% of the KV cache is padding"


def test_precision_is_held_against_the_gpus_capability() -> None:
    assert finding(looked("t4", target="qwen3-0.6b", method="none", dtype="bfloat16"), "plan.dtype").stops_runs
    assert finding(looked("t4", target="qwen3-0.6b", method="none"), "plan.dtype").severity == "info"
    unpacked = finding(looked("a100-40", target="qwen3-4b-fp8", method="none"), "plan.quantization")
    assert unpacked.severity == "info"
    assert finding(looked("t4", target="gpt-oss-20b", method="none"), "plan.quantization").severity == "error"
    assert not [one for one in looked("h100", target="qwen3-4b-fp8").group.findings if one.id == "plan.quantization"]


# --- Speculation


def test_the_gain_is_an_estimate_with_its_assumptions() -> None:
    told = about(planned("h100", target=LLAMA, method="eagle3"))["speculation.gain"]
    assert told.severity == "ok"
    assert "(an estimate; 2.6 tokens a step)" in told.evidence
    assert told.cause.startswith("acceptance: 2.60 tokens a step at k=3, MT-Bench; ")


def test_a_draft_of_a_seventh_of_the_target_is_too_large() -> None:
    told = about(planned("h100", target=LLAMA, method="draft_model", speculator="draft-1b"))
    assert told["speculation.draft-size"].evidence == "the speculator's weights are 15% of the target's"
    assert "speculation.draft-size" not in about(planned("h100", target=LLAMA, method="eagle3"))


def test_more_tokens_than_are_accepted_are_told_with_a_better_k() -> None:
    told = about(
        planned("l4", target="llama-3.1-8b-fp8", method="draft_model", speculator="draft-1b", num_speculative_tokens=16)
    )
    assert told["speculation.k"].fix.startswith("-k ")


def test_a_batch_beyond_the_free_tokens_is_told() -> None:
    told = about(planned("h100", target=LLAMA, method="eagle3", max_num_seqs=128))["speculation.batch"]
    assert told.evidence.startswith("128 requests verify 512 tokens at once, and up to ")
    assert "speculation.batch" not in about(planned("l4", target="llama-3.1-8b-fp8", method="eagle3", max_num_seqs=8))


def test_no_more_requests_are_counted_than_the_kv_cache_holds() -> None:
    plan = planned("l4", target=LLAMA, method="eagle3", max_num_seqs=256)
    made = sense(plan)
    assert made is not None
    assert plan.estimate is not None
    assert made.full.batch == plan.estimate.kv_tokens.low // 2048 < 20


def test_methods_that_step_back_to_the_older_runner_are_told() -> None:
    told = about(planned("h100", target=LLAMA, method="medusa"))
    assert told["speculation.runner"].cause == "V2 has no medusa yet"
    assert told["speculation.scheduling"].severity == "info"
    assert "speculation.runner" not in about(planned("h100", target=LLAMA, method="eagle3"))


def test_sampling_that_vllm_refuses_is_told_only_with_speculation() -> None:
    assert "speculation.sampling" in about(planned("h100", target=LLAMA, method="ngram"))
    assert about(planned("h100", target=LLAMA, method="none")) == {}


def test_logits_processors_do_not_go_with_speculation() -> None:
    told = about(planned("h100", target=LLAMA, method="ngram", engine={"logits_processors": ["a.b"]}))
    assert told["speculation.logits-processors"].severity == "error"
