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

pytestmark = pytest.mark.engine

PROMPT = "\x1b\\[\\?2004h"
"""prompt_toolkit turns bracketed paste on when it is ready for a line."""

ANSWERING = "\x1b\\[\\?2004l"
"""And off again when it has one."""

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
    assert records[5]["error"].startswith("line 5: ")
    assert "maximum context length is 1024 tokens" in records[6]["error"]
    narration = done.stderr.decode()
    assert "4 done · 2 failed" in narration
    assert "smollm2-135m · ngram, k=4" in narration
    assert "INFO" not in narration


def test_a_conversation_on_a_terminal_survives_ctrl_c(embedded_default: Path, tmp_path: Path) -> None:
    chat = pexpect.spawn(
        sys.executable, ["-m", "speccli", "chat", "--max-model-len", "1024", "--max-tokens", "300"],
        env={**os.environ, "TERM": "xterm", "NO_COLOR": "1", "PROMPT_TOOLKIT_NO_CPR": "1"}, cwd=tmp_path, encoding="utf-8", timeout=240, dimensions=(40, 120),
    )  # fmt: skip
    chat.expect("engine ready")
    chat.expect(PROMPT)
    chat.sendline("What is the capital of France?")
    chat.expect("The capital of France is Paris.")
    chat.expect("tokens/s")
    chat.expect(PROMPT)
    chat.sendline("Write a long story about a fox.")
    chat.expect(ANSWERING)
    chat.expect("[a-z]+ [a-z]+ [a-z]+")
    chat.sendintr()
    chat.expect("interrupted")
    chat.expect("mean acceptance length|nothing was drafted")
    chat.expect(PROMPT)
    chat.sendline("Say hello.")
    chat.expect("tokens/s")
    chat.expect(PROMPT)
    chat.sendeof()
    chat.expect(pexpect.EOF)
    chat.close()
    assert chat.exitstatus == 0
