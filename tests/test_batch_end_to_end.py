"""A batch on the real engine, killed and resumed: the records are those of an uninterrupted run."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from speccli import jsonl
from speccli.commands.batch_job import Job
from speccli.engine.vllm import VllmEngine
from speccli.profile import Sampling
from speccli.progress import Progress, Tally
from speccli.view import View
from tests.bench.batch import write_prompts

pytestmark = pytest.mark.engine

NUM_PROMPTS = 24
SETTINGS = "{target: smollm2-135m, hardware: cpu, dtype: float32, method: none, enforce_eager: true, max_model_len: 1024, max_num_seqs: 8, kv_cache_gib: 1}"


def batch(folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "speccli", "batch", "in.jsonl", "-o", "out.jsonl", "--profile", "run.yaml"], cwd=folder,
        env=dict(os.environ), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip


def told(records: bytes) -> dict[str, Any]:
    """The answers by id. Fails where one is written twice."""
    found: dict[str, Any] = {}
    for line in records.splitlines():
        record = json.loads(line)
        assert record["custom_id"] not in found
        found[record["custom_id"]] = (record["response"]["body"]["choices"], record["response"]["body"]["usage"])
    return found


def uninterrupted(engine: VllmEngine, source: Path) -> dict[str, Any]:
    entries = jsonl.read(jsonl.lines(jsonl.find_inputs([str(source)]), io.BytesIO()), jsonl.Defaults(Sampling()))
    records: list[bytes] = []
    tally = Tally()
    job = Job(lambda record, _: records.append(record), tally, "auto", "smollm2-135m")
    job.answer(engine, entries, Progress(View(quiet=True), lambda: None, tally))
    return told(b"".join(records))


def test_kill_9_and_the_same_command_again_give_what_one_run_gives(
    plain_engine: VllmEngine, embedded_default: Path, tmp_path: Path
) -> None:
    write_prompts(tmp_path / "in.jsonl", NUM_PROMPTS)
    (tmp_path / "run.yaml").write_text(SETTINGS)
    out = tmp_path / "out.jsonl"
    process = batch(tmp_path)
    while process.poll() is None and not (out.exists() and out.stat().st_size):
        time.sleep(0.01)
    time.sleep(1.0)
    process.kill()
    assert process.communicate()[1] is not None
    assert process.returncode == -signal.SIGKILL, "it ended before it was killed"
    before = out.read_bytes()
    assert 0 < len(told(before)) < NUM_PROMPTS
    with out.open("ab") as file:
        file.write(b'{"id":"batch_req_torn')
    again = batch(tmp_path)
    said = again.communicate()[1].decode()
    assert again.returncode == 0, said
    assert f"resuming: {len(told(before))} lines have their record" in said
    assert "torn line of 21 bytes" in said
    assert "nanobind" not in said
    assert out.read_bytes().startswith(before)
    assert told(out.read_bytes()) == uninterrupted(plain_engine, tmp_path / "in.jsonl")
