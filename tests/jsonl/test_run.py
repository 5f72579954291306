"""What an output remembers of its run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from speccli import jsonl
from speccli.errors import UsageError
from speccli.jsonl.run import Run, differences, known_run, remember, remembered, require_own, run_path
from speccli.profile import Profile, Settings
from tests.commands.example import example_plan


def run_with(folder: Path, **settings: Any) -> Run:
    plan = msgspec.structs.replace(example_plan(folder), profile=Profile(Settings(**settings), {}))
    return jsonl.run_of(plan, (), "auto", False, False, None)


def test_what_vllm_is_told_beside_speccli_is_remembered_and_compared(tmp_path: Path) -> None:
    plain = run_with(tmp_path)
    told = run_with(tmp_path, kv_cache_dtype="fp8", engine={"quantization": "fp8", "hf_overrides": {"rope_theta": 1e6}})
    remember(plain, tmp_path / "out")
    then = remembered(tmp_path / "out")
    assert then is not None
    assert differences(then, plain) == []
    assert differences(then, told) == [
        "kv_cache_dtype: not set then, fp8 now",
        "engine.quantization: not set then, fp8 now",
        'engine.hf_overrides: not set then, {"rope_theta":1000000.0} now',
    ]
    remember(told, tmp_path / "out")
    then = remembered(tmp_path / "out")
    assert then is not None
    assert differences(then, told) == []
    assert len(differences(then, plain)) == 3


def test_a_file_that_does_not_tell_of_the_engine_is_no_other_run(tmp_path: Path) -> None:
    remember(run_with(tmp_path), tmp_path / "out")
    path = run_path(tmp_path / "out")
    told = json.loads(path.read_bytes())
    del told["engine"], told["kv_cache_dtype"]
    path.write_text(json.dumps(told))
    then = remembered(tmp_path / "out")
    assert then is not None
    assert differences(then, run_with(tmp_path, engine={"quantization": "fp8"}, kv_cache_dtype="fp8")) == []
    assert differences(then, run_with(tmp_path, seed=3)) == ["seed: not set then, 3 now"]


def test_a_token_is_not_written_down(tmp_path: Path) -> None:
    remember(run_with(tmp_path, engine={"hf_token": "hf_secret", "block_size": 16}), tmp_path / "out")
    content = run_path(tmp_path / "out").read_text()
    assert "block_size" in content
    assert "hf_secret" not in content


@pytest.mark.parametrize("content", [b"{}", b"precious", b"\xff", b'{"inputs": ' + b"[" * 100_000])
def test_a_file_beside_the_output_that_tells_of_no_run_is_named(tmp_path: Path, content: bytes) -> None:
    path = run_path(tmp_path / "out")
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"out\.run\.json does not tell of a run") as caught:
        remembered(tmp_path / "out")
    assert "--force" in caught.value.hint
    with pytest.raises(UsageError, match=r"out\.run\.json does not tell of a run") as caught:
        require_own(tmp_path / "out")
    assert "--force" not in caught.value.hint
    assert known_run(tmp_path / "out") is None
