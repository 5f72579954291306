"""What every test needs: isolation from the developer's own files, and the real engine, each configuration started once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from speccli import paths
from speccli.engine.vllm import VllmEngine
from speccli.plan import Plan
from speccli.prepare import prepare
from speccli.profile import Settings

REAL_CACHE = paths.cache_dir()
"""Taken before a test is isolated, so that the embedded default is unpacked once for all of them."""

QUIET_ENVIRONMENT = {"NO_COLOR": "1", "COLUMNS": "100", "SPECCLI_CACHE": str(REAL_CACHE)}


def _isolate(folder: Path, patch: pytest.MonkeyPatch) -> None:
    for name in ("CONFIG", "STATE", "DATA"):
        patch.setenv(f"XDG_{name}_HOME", str(folder / name.lower()))
    for name in list(os.environ):
        if name.startswith(("SPECCLI_", "VLLM_", "HF_")):
            patch.delenv(name)
    for name, value in QUIET_ENVIRONMENT.items():
        patch.setenv(name, value)


@pytest.fixture(autouse=True)
def isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the developer's settings, or writes to the home folder."""
    _isolate(tmp_path, monkeypatch)


@pytest.fixture(scope="session")
def session_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Isolation for what lives as long as the session: engines and their logs."""
    folder = tmp_path_factory.mktemp("session")
    with pytest.MonkeyPatch.context() as patch:
        _isolate(folder, patch)
        yield folder


@pytest.fixture(scope="session")
def embedded_default(session_environment: Path) -> Path:
    """The folder of the embedded default, unpacked into speccli's own cache if it is not there."""
    plan = prepare(Settings(target="smollm2-135m", method="none", hardware="cpu"), None, lambda line: None, {})
    return Path(plan.target.path)


PlanFor = Callable[..., Plan]


@pytest.fixture(scope="session")
def plan_for(embedded_default: Path) -> PlanFor:
    """Plans for the real engine: float32 on the CPU, eager, small."""

    def plan(**settings: object) -> Plan:
        small = {
            "target": "smollm2-135m", "hardware": "cpu", "dtype": "float32", "enforce_eager": True, "max_model_len": 1024,
            "max_num_seqs": 8, "kv_cache_gib": 1.0,
        }  # fmt: skip
        return prepare(Settings(**{**small, **settings}), None, lambda line: None, {})  # type: ignore[arg-type]

    return plan


@pytest.fixture(scope="session")
def plain_engine(plan_for: PlanFor) -> Iterator[VllmEngine]:
    """Plain decoding on the real engine: what speculation is compared with."""
    with VllmEngine(plan_for(method="none")) as engine:
        yield engine


Speculative = Callable[[str], VllmEngine]


@pytest.fixture(scope="session")
def speculative(plan_for: PlanFor) -> Iterator[Speculative]:
    """Engines that speculate, by method, started when first asked for; the one before is closed."""
    running: dict[str, VllmEngine] = {}

    def engine(name: str) -> VllmEngine:
        if name not in running:
            for other in list(running):
                running.pop(other).close()
            running[name] = VllmEngine(plan_for(method=name, engine={"disable_log_stats": False}))
        return running[name]

    yield engine
    for last in running.values():
        last.close()


@pytest.fixture
def run_speccli(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[bytes]]:
    """Run the command in a process of its own."""

    def run(*arguments: str, stdin: bytes = b"", **environment: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-m", "speccli", *arguments],
            input=stdin,
            capture_output=True,
            env={**os.environ, **environment},
            cwd=tmp_path,
            check=False,
        )

    return run
