"""Every shipped pairing, on every machine that it is offered for, is accepted by vLLM's own configuration code.

A checkpoint here is the config.json that a profile's facts tell, and nothing else. vLLM is the CPU build: what the CUDA
build asks of the GPU itself, such as its compute capability for a quantisation, is not asked. `tensor_parallel_size` 2
needs no pretence: the CPU build counts no devices, and its processes would only be made when an engine starts.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from speccli import paths
from speccli.checkpoint import Checkpoint, Checkpoints
from speccli.checkpoint.repair.place import misread_as
from speccli.hardware import CpuInfo, Hardware
from speccli.hardware.shipped import named
from speccli.pairing import Facts, Pairing, resolve
from speccli.pairing.file import PairingFile, checked
from speccli.plan import fit
from speccli.profile import Settings, document, load

pytestmark = pytest.mark.engine

ROOT = Path(__file__).resolve().parent.parent

SHIPPED: dict[str, PairingFile] = {
    file.stem: checked(document.read(file)) for file in sorted((paths.profiles_dir() / "pairings").glob("*.yaml"))
}

PROCESSOR = CpuInfo(
    model="A processor", architecture="x86_64", physical_cores=8, usable_cpus=8, flags=("avx512f", "avx512_bf16"),
    memory_total_bytes=2**40, memory_available_bytes=2**40,
)  # fmt: skip

DSPARK = "Value error, Model Runner V1 does not support: dspark speculative decoding"
"""The CPU build has the first model runner only."""

SUFFIX = (
    "ImportError: Arctic Inference is required for suffix decoding. Install via `pip install arctic-inference==0.1.1`."
)

UNINSPECTED = "Value error, Model architectures ['{}'] failed to be inspected. Please check the logs for more details."

STAND_INS = [
    f"{name}/__init__.py"
    for name in ("arctic_inference", "torchvision", "torchvision/transforms", "torchvision/transforms/v2")
] + [f"torchvision/{name}.py" for name in ("io", "ops", "transforms/functional", "transforms/v2/functional")]
"""Packages that vLLM only looks for, or imports beside the models that it inspects, while it makes a configuration.

Suffix decoding needs arctic-inference, a further package. Qwen3.5, Qwen3.6 and Gemma 4 see pictures, so their model
classes import torchvision, whose wheels break the CPU build of torch: the set-up takes it away.
"""

STAND_IN = """\
from unittest.mock import MagicMock

__version__ = "0.28.0"

def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return MagicMock()
"""


class Case(msgspec.Struct, frozen=True):
    """What vLLM is told for a pairing on a machine, and what has to come of it."""

    name: str
    pairing: Pairing
    arguments: dict[str, Any]

    @property
    def expected(self) -> dict[str, Any]:
        if self.pairing.method == "dspark":
            return {"refusal": DSPARK}
        return {
            "method": self.pairing.method,
            "num_speculative_tokens": self.pairing.num_speculative_tokens,
            "tensor_parallel_size": self.arguments.get("tensor_parallel_size", 1),
            "max_model_len": self.arguments["max_model_len"],
            "reasoning_parser": self.arguments.get("reasoning_parser", ""),
        }


class Folders:
    """Checkpoints of a config.json; equal ones share a folder, and no name tells vLLM of a method."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._made: dict[str, str] = {}

    def of(self, facts: Facts) -> str:
        text = json.dumps(facts, sort_keys=True)
        if text not in self._made:
            folder = self._root / f"checkpoint-{len(self._made)}"
            folder.mkdir()
            (folder / "config.json").write_text(text)
            self._made[text] = str(folder)
        return self._made[text]


def machine(name: str) -> Hardware:
    return named(name, PROCESSOR)


def offers() -> Iterator[tuple[str, Settings, str]]:
    """Each variant with each speculator that goes with it, on each machine that the file has a choice for."""
    for stem, file in SHIPPED.items():
        for hardware in dict.fromkeys(one for choice in file.choices for one in choice.hardware):
            for target in file.targets:
                for speculator in file.speculators:
                    if speculator.goes_with(target.name):
                        name = f"{stem}: {target.name} with {speculator.name} on {hardware}"
                        yield name, Settings(target=target.name, speculator=speculator.name), hardware


def checkpoint(facts: Facts, folders: Folders) -> Checkpoint:
    """Of no size, so that it fits anywhere: whether it does is not the question here."""
    text = facts.get("text_config") or facts.get("transformer_layer_config") or facts
    return Checkpoint(
        name="a checkpoint",
        path=folders.of(facts),
        dtype="bfloat16",
        weight_bytes=1,
        kv_elements_per_token=1,
        max_position_embeddings=text.get("max_position_embeddings"),
    )


def case(name: str, asked: Settings, hardware: str, folders: Folders) -> Case:
    profile, pairing = resolve(load(asked, None, {}), machine(hardware))
    target = checkpoint(pairing.target_facts, folders)
    speculator = checkpoint(pairing.speculator_facts, folders) if pairing.speculator_source else None
    assert speculator is None or misread_as(speculator.path, pairing.method) is None
    return Case(
        name, pairing, fit(profile, machine(hardware), pairing, Checkpoints(target, speculator)).engine_arguments
    )


def cases(folders: Folders) -> list[Case]:
    """One for each configuration that differs in what vLLM looks at."""
    distinct: dict[str, Case] = {}
    for name, asked, hardware in offers():
        one = case(name, asked, hardware, folders)
        del one.arguments["served_model_name"]
        distinct.setdefault(json.dumps(one.arguments, sort_keys=True), one)
    return list(distinct.values())


def told_by_vllm(given: list[Case], folder: Path, python_path: str = "") -> list[dict[str, Any]]:
    """A process of its own: vLLM keeps what it has found out about models and packages."""
    question, answer = folder / "given.json", folder / "told.json"
    question.write_text(json.dumps([one.arguments for one in given]))
    environment = {
        "HF_HOME": str(folder),
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": python_path,
        "VLLM_CACHE_ROOT": str(folder),
        "VLLM_CONFIG_ROOT": str(folder),
        "VLLM_CPU_KVCACHE_SPACE": "1",
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.vllm_configs", str(question), str(answer)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **environment},
        cwd=ROOT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    outcomes: list[dict[str, Any]] = json.loads(answer.read_bytes())
    return outcomes


def test_vllm_accepts_what_is_shipped(tmp_path: Path) -> None:
    for file in STAND_INS:
        path = tmp_path / "packages" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(STAND_IN)
    given = cases(Folders(tmp_path))
    outcomes = told_by_vllm(given, tmp_path, str(tmp_path / "packages"))
    wrong = [
        f"{one.name}\n  {outcome}\n  {one.arguments}"
        for one, outcome in zip(given, outcomes, strict=True)
        if outcome != one.expected
    ]
    assert not wrong, f"{len(wrong)} of {len(given)} configurations:\n" + "\n".join(wrong)


def test_what_vllm_refuses_where_a_package_is_missing(tmp_path: Path) -> None:
    folders = Folders(tmp_path)
    given = [
        case("", Settings(target=target, speculator=speculator), hardware, folders)
        for target, speculator, hardware in (
            ("qwen3-8b-bf16", "suffix", "h100"),
            ("qwen3.5-4b", "ngram", "l4"),
            ("qwen3.6-35b-a3b-bf16", "ngram", "h100x2"),
            ("gemma-4-12b-bf16", "ngram", "h100"),
            ("gemma-4-31b-bf16", "ngram", "h100"),
        )
    ]
    refusals = [one.get("refusal") for one in told_by_vllm(given, tmp_path)]
    assert refusals == [
        None if importlib.util.find_spec("arctic_inference") else SUFFIX,
        UNINSPECTED.format("Qwen3_5ForConditionalGeneration"),
        UNINSPECTED.format("Qwen3_5MoeForConditionalGeneration"),
        UNINSPECTED.format("Gemma4UnifiedForConditionalGeneration"),
        UNINSPECTED.format("Gemma4ForConditionalGeneration"),
    ]
