"""What is told to change is planned again: every fix fits, and its words are its plan's."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from speccli.errors import MachineError
from speccli.hardware import Hardware
from speccli.hardware.shipped import named
from speccli.pairing import resolve
from speccli.plan import fit, fixes, known, trial
from speccli.plan.interval import GIB
from speccli.profile import Settings
from tests.plan.example import asked, cpu, estimated, suggested

MEDUSA: dict[str, Any] = {"target": "llama-3.1-8b-bf16", "method": "medusa", "num_speculative_tokens": 5}


def again(machine: str, settings: dict[str, Any], fix: trial.Fix) -> str:
    changed = {key: value for key, value in {**settings, **fix.changes}.items() if value is not None}
    return estimated(str(changed.pop("hardware", machine)), **changed).verdict


@pytest.mark.parametrize(
    ("machine", "settings"),
    [
        ("l4", MEDUSA),
        ("l4", {"target": "llama-3.1-8b-bf16", "method": "eagle3", "max_model_len": 131072}),
        ("l4", {"target": "qwen3-14b-bf16", "method": "none"}),
        ("h100", {"target": "llama-3.3-70b-bf16", "method": "eagle3"}),
        ("t4", {"target": "qwen3-8b-bf16", "method": "eagle3"}),
        ("l40s", {"target": "qwen3-32b-bf16", "method": "eagle3"}),
    ],
)
def test_every_fix_fits_when_it_is_planned_by_itself(machine: str, settings: dict[str, Any]) -> None:
    found = suggested(machine, **settings)
    assert found != []
    assert [
        (fix.options, again(machine, settings, fix)) for fix in found if again(machine, settings, fix) != "fits"
    ] == []
    assert {fix.verdict for fix in found} == {"fits"}


def test_a_shorter_context_comes_first_and_is_told_with_its_effect() -> None:
    first = suggested("l4", target="llama-3.1-8b-bf16", method="eagle3", max_model_len=131072)[0]
    longest = estimated("l4", target="llama-3.1-8b-bf16", method="eagle3", max_model_len=131072).max_model_len_that_fits
    length = longest // 256 * 256
    assert first.changes == {"max_model_len": length}
    assert first.options == f"--max-model-len {length}"
    assert first.lines == f"max_model_len: {length}\n"
    assert first.effect == f"fits, {trial.in_short(first.kv_tokens)} KV tokens"
    assert first.told == f"{first.options}: {first.effect}"


def test_no_fix_leaves_a_context_beyond_the_models_own() -> None:
    found = suggested("l4", target="vicuna-7b", method="medusa", max_model_len=1_000_000)
    assert [fix.options for fix in found] == ["--max-model-len 2048"]
    found = suggested("l4", target="qwen3-14b-bf16", method="none", max_model_len=1_000_000)
    assert found != []
    assert {fix.changes["max_model_len"] <= 40960 for fix in found} == {True}


def test_no_fix_is_a_target_that_was_made_for_a_shorter_context() -> None:
    asked: dict[str, Any] = {"target": "qwen3-14b-bf16", "method": "none"}
    assert "--target smollm2-135m" in [fix.options for fix in suggested(cpu(8), **asked, max_model_len=8192)]
    assert "--target smollm2-135m" not in [fix.options for fix in suggested(cpu(8), **asked, max_model_len=30000)]


GIVEN: dict[str, Any] = {"target": "qwen3-8b-fp8", "method": "eagle3", "max_model_len": 16384}


@pytest.mark.parametrize(("given", "size"), [(500.0, 9.7), (15.0, 9.7), (0.1, 2.4)])
def test_a_kv_cache_of_a_wrong_size_gets_one_that_fits_or_none(given: float, size: float) -> None:
    found = [fix for fix in suggested("l4", **GIVEN, kv_cache_gib=given) if "kv_cache_gib" in fix.changes]
    assert [fix.changes for fix in found] == [{"kv_cache_gib": size}, {"kv_cache_gib": None}]
    assert found[0].told.startswith(f"kv_cache_gib: {size} in the profile: fits, ")
    assert found[1].told.startswith("no kv_cache_gib in the profile: fits, ")


def test_a_share_that_is_smaller_by_less_than_a_percent_is_told() -> None:
    h100 = named("h100").devices[0]
    free = int(0.6001 * h100.total_bytes + 0.55 * GIB)
    held = msgspec.structs.replace(h100, used_bytes=h100.total_bytes - free)
    machine = Hardware(kind="cuda", name="h100", source="detected", devices=(held,))
    found = suggested(machine, target="qwen3-8b-bf16", method="none", gpu_memory_utilization=0.6048)
    assert found[0].changes == {"gpu_memory_utilization": 0.6}


def test_with_five_medusa_heads_fewer_heads_another_method_and_another_precision_are_named() -> None:
    options = [fix.options for fix in suggested("l4", **MEDUSA)]
    assert any(option.startswith("-k ") for option in options)
    assert "--method eagle3" in options
    assert "--target llama-3.1-8b-fp8" in options
    assert "--no-spec" in options


def test_a_machine_that_is_named_may_become_a_larger_one() -> None:
    fix = suggested("h100", target="llama-3.3-70b-bf16", method="none")[-1]
    assert fix.options == "--tensor-parallel-size 2 --hardware h100x2"


def test_what_has_no_option_is_told_as_lines_of_a_profile() -> None:
    assert trial.options_of({"kv_cache_dtype": "fp8"}) == ""
    assert trial.lines_of({"kv_cache_dtype": "fp8"}, Settings()) == "kv_cache_dtype: fp8\n"
    engine = {"engine": {"block_size": 16, "max_num_batched_tokens": 512}}
    lines = trial.lines_of(engine, Settings(engine={"block_size": 16}))
    assert lines == "engine:\n  max_num_batched_tokens: 512\n"
    assert trial.options_of({"method": "none"}) == "--no-spec"
    assert trial.options_of({"enforce_eager": True}) == "--eager"


@pytest.mark.parametrize(("count", "text"), [(999, "999"), (26_112, "26k"), (1_581_104, "1.6M"), (54_632_320, "55M")])
def test_token_counts_are_short(count: int, text: str) -> None:
    assert trial.in_short(count) == text


def test_a_run_that_does_not_fit_is_refused_with_the_first_fix() -> None:
    machine = named("l4")
    completed, pairing = resolve(asked(**MEDUSA), machine)
    checkpoints = known.of_catalogue(pairing)
    assert checkpoints is not None
    with pytest.raises(MachineError) as caught:
        fit(completed, machine, pairing, checkpoints)
    assert caught.value.message.startswith(
        "llama-3.1-8b-bf16 does not fit l4: weights 15.0 GiB, speculator 5.0 GiB and "
    )
    first = fixes.first(completed, machine, pairing, checkpoints)
    assert first is not None
    assert caught.value.hint == first.told


def test_where_no_single_change_is_enough_several_go_together() -> None:
    l4 = named("l4").devices[0]
    held = msgspec.structs.replace(l4, used_bytes=8 * GIB)
    machine = Hardware(kind="cuda", name="l4", source="detected", devices=(held,))
    profile = asked(target="llama-3.1-8b-bf16", method="eagle3")
    completed, pairing = resolve(profile, machine)
    checkpoints = known.of_catalogue(pairing)
    assert checkpoints is not None
    found = list(fixes.suggestions(trial.case_of(profile, completed, machine, pairing, checkpoints)))
    assert found[0].options == (
        "--max-model-len 4096 --max-num-seqs 16 --gpu-memory-utilization 0.61 --target llama-3.1-8b-fp8"
    )
    assert found[0].verdict == "fits"


def test_a_change_without_an_option_is_told_as_what_a_profile_says() -> None:
    fix = next(
        one
        for one in suggested(
            "l4",
            target="llama-3.1-8b-bf16",
            method="none",
            max_model_len=9000,
            engine={"max_num_batched_tokens": 32768, "block_size": 16},
        )
        if "engine" in one.changes
    )
    assert fix.told.startswith("engine: {max_num_batched_tokens: 1024, block_size: 16} in the profile: fits, ")
    assert fix.lines == "engine:\n  max_num_batched_tokens: 1024\n"
