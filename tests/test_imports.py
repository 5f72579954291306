"""What starts quickly must not import what is slow: seen in fresh interpreters."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

HEAVY = {"vllm", "torch", "transformers"}
NOT_FOR_HELP = {*HEAVY, "huggingface_hub", "rich", "prompt_toolkit", "httpx", "numpy", "yaml", "pynvml"}

WATCH = """
import sys
from speccli.cli import main
try:
    main()
except SystemExit:
    pass
print("\\n".join(sorted({name.partition(".")[0] for name in sys.modules})), file=sys.stderr)
"""


def imported(*arguments: str, **environment: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", WATCH, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )
    return set(done.stderr.split())


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["chat", "--help"], ["batch", "--help"], ["doctor", "--help"]]
)
def test_help_and_version_import_nothing_slow(arguments: list[str]) -> None:
    assert not imported(*arguments) & NOT_FOR_HELP


def test_completion_imports_nothing_slow() -> None:
    modules = imported(_SPECCLI_COMPLETE="complete_bash", COMP_WORDS="speccli ch", COMP_CWORD="1")
    assert not modules & NOT_FOR_HELP


def test_doctor_imports_no_engine() -> None:
    assert not imported("doctor", "--offline") & HEAVY


def test_a_plan_for_a_machine_that_is_not_here_imports_little() -> None:
    """What it takes is arithmetic: a fraction of a second goes into imports, and little else."""
    modules = imported("doctor", "--offline", "--json", "--hardware", "h100", "--target", "llama-3.1-8b")
    assert not modules & {*HEAVY, "numpy", "rich", "prompt_toolkit", "safetensors"}


def test_the_package_itself_imports_nothing() -> None:
    code = "import sys; before = set(sys.modules); import speccli; print(sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['speccli']"


def test_a_run_that_cannot_be_meant_imports_no_engine() -> None:
    assert not imported("chat", "Hello", "-k", "0") & HEAVY
