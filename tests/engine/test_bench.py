"""`speccli bench` as its user runs it: the real command, and the real engine in a process for each way."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.engine

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]

PROMPTS = (
    {"id": "list", "category": "chat", "prompt": "List five fruits, one a line."},
    {
        "id": "fox",
        "category": "edit",
        "prompt": "Repeat this sentence three times: The quick brown fox jumps over the lazy dog.",
    },
)


def test_plain_and_ngram_are_measured_and_a_second_run_only_shows_it(
    run_speccli: Run, embedded_default: Path, tmp_path: Path
) -> None:
    (tmp_path / "two.jsonl").write_text("\n".join(map(json.dumps, PROMPTS)))
    command = (
        "bench", "two.jsonl", "--target", "smollm2-135m", "--methods", "ngram", "--batch-sizes", "2", "--repeats", "1", "--max-tokens", "24",
        "--max-model-len", "512", "--eager", "--dtype", "float32", "-o", "bench.json", "--json",
    )  # fmt: skip
    done = run_speccli(*command)
    assert done.returncode == 0, done.stderr.decode()
    told = json.loads(done.stdout)
    found = {(one["way"], one["category"]): one for one in told["results"]}
    assert set(found) == {(way, category) for way in ("plain", "ngram k=4") for category in ("all", "chat", "edit")}
    assert told["greedy_differences"] == [], "float32"
    plain, ngram = found["plain", "all"], found["ngram k=4", "all"]
    assert plain["num_tokens"] == ngram["num_tokens"]
    assert plain["acceptance"]["num_drafts"] == 0 < ngram["acceptance"]["num_accepted_tokens"]
    assert plain["decode_tokens_per_s"]["median"] > 0
    assert plain["inter_token_latency_s"]["p50"] > 0
    assert "plain: engine ready after" in done.stderr.decode()
    again = run_speccli(*command[:-1], "--resume")
    assert again.returncode == 0, again.stderr.decode()
    assert "engine ready" not in again.stderr.decode()
    assert "? fewer than 3 repeats" in again.stdout.decode()
