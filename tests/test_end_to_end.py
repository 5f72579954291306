"""The product as its user runs it: the real command, the real engine, a real terminal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pexpect
import pytest

from speccli import paths
from speccli.chat.files import load

pytestmark = pytest.mark.engine

PROMPT = "\x1b\\[\\?2004h"
"""prompt_toolkit turns bracketed paste on when it is ready for a line."""


Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


def test_a_batch_of_good_and_bad_lines_on_the_real_engine(
    run_speccli: Run, embedded_default: Path, tmp_path: Path
) -> None:
    sample = (paths.profiles_dir() / "prompts" / "sample.jsonl").read_text().splitlines()
    (tmp_path / "in.jsonl").write_text(
        "\n".join([*sample[:4], "nonsense", json.dumps({"id": "long", "prompt": "word " * 3000})])
    )
    done = run_speccli("batch", "in.jsonl", "--max-tokens", "24", "--max-model-len", "1024", "--max-num-seqs", "4")
    records = {record["line"]: record for record in map(json.loads, done.stdout.splitlines())}
    assert done.returncode == 1
    assert sorted(records) == [1, 2, 3, 4, 5, 6]
    assert records[1]["text"] == "The capital of France is Paris."
    assert records[2]["usage"]["completion_tokens"] == 24
    assert records[5]["error"]["message"].startswith("in.jsonl:5: ")
    assert "maximum context length is 1024 tokens" in records[6]["error"]["message"]
    narration = done.stderr.decode()
    assert "4 done · 2 failed" in narration
    assert "smollm2-135m · eagle3, k=2" in narration
    assert "INFO" not in narration


def test_a_conversation_on_a_terminal(embedded_default: Path, tmp_path: Path) -> None:
    """Typed while the engine starts, streamed, interrupted, explained, compared, saved, left."""
    chat = pexpect.spawn(
        sys.executable,
        ["-m", "speccli", "chat", "--method", "ngram", "--max-model-len", "1024", "--max-tokens", "300", "--temperature", "0"],
        env={**os.environ, "TERM": "xterm", "NO_COLOR": "1", "PROMPT_TOOLKIT_NO_CPR": "1"},
        cwd=tmp_path, encoding="utf-8", timeout=240, dimensions=(40, 120),
    )  # fmt: skip
    chat.expect(PROMPT)
    chat.send("What is the capital of France?\r")
    chat.expect("starting the engine: [a-z]+")
    chat.expect("engine ready after")
    chat.expect("The capital of France is Paris.")
    chat.expect(r"\d+ tokens · [\d.]+ tokens/s")
    chat.expect(PROMPT)
    chat.send("/tokens\r")
    chat.expect("accepted draft tokens⟧: [0-9]+ · the target's own: [0-9]+")
    chat.expect(PROMPT)
    chat.send("/compare\r")
    chat.expect("tokens/s \\(decoding\\)")
    chat.expect("the same [0-9]+ tokens")
    chat.expect(PROMPT)
    chat.send("Write a long story about a fox.\r")
    chat.expect(r"(?:[5-9]|\d\d) tokens · [\d.]+ tokens/s[^\r\n]*Ctrl-C stops")
    chat.sendintr()
    chat.expect("interrupted")
    chat.expect(PROMPT)
    chat.send("/stats\r")
    chat.expect("accepted tokens")
    chat.expect("against plain decoding")
    chat.expect(PROMPT)
    chat.send("/save talk.json\r")
    chat.expect("saved: talk.json · 2 turns")
    chat.expect(PROMPT)
    chat.sendeof()
    chat.expect(pexpect.EOF)
    chat.close()
    assert chat.exitstatus == 0
    first, second = load(tmp_path / "talk.json").conversation.turns
    assert (first.answer, first.finish_reason) == ("The capital of France is Paris.", "stop")
    assert second.finish_reason is None
    for turn in (first, second):
        assert "".join(token.text for token in turn.tokens) == turn.answer
        drafted = sum(token.origin == "draft" for token in turn.tokens)
        assert turn.acceptance.num_accepted_tokens - drafted in range(5)  # some may lie behind the end
