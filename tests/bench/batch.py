"""`make bench-batch`: speccli batch beside LLM.chat and `vllm run-batch` on the same input; then its own cost, on a scripted engine.

python tests/bench/batch.py [--prompts 256] [--lines 1000,100000,1000000] [--only real|scripted]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from speccli import paths
from speccli.prepare import prepare
from speccli.profile import Settings

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
MIB = 2**20

SETTINGS: dict[str, Any] = {
    "target": "smollm2-135m", "hardware": "cpu", "method": "ngram", "enforce_eager": True, "max_model_len": 1024, "max_num_seqs": 32,
    "kv_cache_gib": 2.0,
}  # fmt: skip

POLL_S = 0.2


class Run:
    """A command in a process of its own, and the most memory that this process alone held."""

    def __init__(self, command: Sequence[str | Path], environment: Mapping[str, str], log: Path) -> None:
        started = time.perf_counter()
        self.peak_mib = 0.0
        with log.open("wb") as file:
            process = subprocess.Popen(
                [str(part) for part in command], cwd=ROOT, env={**os.environ, **environment}, stdout=file, stderr=file
            )
            while process.poll() is None:
                self.peak_mib = max(self.peak_mib, _peak_mib(process.pid))
                time.sleep(POLL_S)
        self.wall_s = time.perf_counter() - started
        if process.returncode:
            raise SystemExit(log.read_text(errors="replace")[-4000:])


def _peak_mib(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)


def write_prompts(file: Path, count: int) -> None:
    """The sample questions over and over, with a number in front so that no prefix is cached, and of mixed lengths."""
    samples = [
        json.loads(line) for line in (paths.profiles_dir() / "prompts" / "sample.jsonl").read_text().splitlines()
    ]
    with file.open("w") as out:
        for i in range(count):
            text = f"Question {i}. " + _question(samples[i % len(samples)]) + " Be exact." * (i % 7 * 5)
            body = {
                "model": "smollm2-135m", "messages": [{"role": "user", "content": text}], "temperature": 0.0, "ignore_eos": True,
                "max_tokens": 16 + i * 7 % 49,
            }  # fmt: skip
            line = {"custom_id": str(i), "method": "POST", "url": "/v1/chat/completions", "body": body}
            out.write(json.dumps(line) + "\n")


def _question(sample: dict[str, Any]) -> str:
    return str(sample.get("prompt") or sample["messages"][-1]["content"])


def real(folder: Path, prompts: int) -> None:
    """The three on one input with the same engine arguments. Starting is left out of the rates."""
    plan = prepare(Settings(**SETTINGS), None, lambda line: None)
    source = folder / "in.jsonl"
    write_prompts(source, prompts)
    arguments = {key: value for key, value in plan.engine_arguments.items() if key != "per_request_spec_decode_metrics"}
    (folder / "arguments.json").write_text(json.dumps(arguments))
    say(f"{prompts} prompts, {SETTINGS['method']}, max_num_seqs {SETTINGS['max_num_seqs']}")
    rates: dict[str, float] = {}
    for name in ("LLM.chat", "vllm run-batch", "speccli batch"):
        told = _speccli(folder, source) if name == "speccli batch" else _peer(folder, source, name, plan.environment)
        rates[name] = told["tokens"] / told["generating_s"]
        say(
            f"  {name:15} {told['tokens']:7} tokens in {told['generating_s']:7.1f} s = {rates[name]:7.1f} tokens/s"
            f"   peak memory of the front process {told['peak_mib']:6.0f} MiB"
        )
    ours = rates["speccli batch"]
    say(f"  ratio: {ours / rates['LLM.chat']:.3f} of LLM.chat, {ours / rates['vllm run-batch']:.3f} of vllm run-batch")


def _speccli(folder: Path, source: Path) -> dict[str, Any]:
    profile = folder / "profile.yaml"
    profile.write_text(json.dumps(SETTINGS))  # JSON is YAML, too
    command: list[str | Path] = [
        sys.executable, "-m", "speccli", "batch", source, "-o", folder / "out.jsonl", "--profile", profile, "--summary", folder / "summary.json",
    ]  # fmt: skip
    run = Run(command, {}, folder / "log")
    told = json.loads((folder / "summary.json").read_bytes())
    return {"tokens": told["completion_tokens"], "generating_s": told["generating_s"], "peak_mib": run.peak_mib}


def _peer(folder: Path, source: Path, name: str, environment: Mapping[str, str]) -> dict[str, Any]:
    result = folder / "peer.json"
    command: list[str | Path] = [
        sys.executable,
        HERE / "batch_peers.py",
        name,
        folder / "arguments.json",
        source,
        result,
    ]
    run = Run(command, environment, folder / "log")
    return {**json.loads(result.read_bytes()), "peak_mib": run.peak_mib}


def scripted(folder: Path, counts: Sequence[int]) -> None:
    """What reading, folding and writing cost, with an engine that costs almost nothing."""
    say("a scripted engine, two steps an answer: speccli's own cost")
    for count in counts:
        source, out = folder / "in.jsonl", folder / "out.jsonl"
        with source.open("w") as file:
            for i in range(count):
                file.write(
                    json.dumps({"id": f"row-{i}", "prompt": f"What is the square root of {i}? Answer briefly."}) + "\n"
                )
        out.unlink(missing_ok=True)
        summary = folder / "summary.json"
        arguments: list[str | Path] = ["batch", source, "-o", out, "--summary", summary]
        run = Run([sys.executable, "-m", "tests.commands.scripted_batch", "0", *arguments], {}, folder / "log")
        told = json.loads(summary.read_bytes())
        again = Run([sys.executable, "-m", "tests.commands.scripted_batch", "0", *arguments], {}, folder / "log")
        say(
            f"  {count:9,} lines: {told['lines_per_s']:9,.0f} lines/s, peak memory {run.peak_mib:5.0f} MiB, in all {run.wall_s:6.1f} s"
            f"   the same command again, nothing to do: {again.wall_s:5.1f} s, {again.peak_mib:5.0f} MiB"
        )


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=256)
    parser.add_argument("--lines", default="1000,100000,1000000")
    parser.add_argument("--only", choices=["real", "scripted"])
    asked = parser.parse_args()
    if asked.only != "real":
        with tempfile.TemporaryDirectory() as folder:
            scripted(Path(folder), [int(count) for count in asked.lines.split(",")])
    if asked.only != "scripted":
        with tempfile.TemporaryDirectory() as folder:
            real(Path(folder), asked.prompts)


if __name__ == "__main__":
    main()
