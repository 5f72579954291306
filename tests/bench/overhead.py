"""`make bench-overhead`: what speccli costs beside vLLM itself, and what n-gram speculation brings; ratios of one run."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
BATCH = {"batch": 64, "tokens": 64, "repeats": 2}
SINGLE = {"single": 20, "tokens": 64, "repeats": 1}


def measured(engine: str, settings: dict[str, Any], workload: dict[str, Any]) -> dict[str, Any]:
    """Run one configuration in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        result, log = Path(folder) / "result.json", Path(folder) / "log"
        asked = json.dumps({"engine": engine, "settings": settings, "workload": workload})
        with log.open("wb") as file:
            done = subprocess.run(
                [sys.executable, HERE / "measure.py", asked, result], stdout=file, stderr=file, check=False
            )
        if done.returncode or not result.exists():
            raise SystemExit(log.read_text()[-3000:])
        told: dict[str, Any] = json.loads(result.read_text())
        return told


def wall_s(*command: str | Path, repeats: int = 5) -> float:
    """The median wall time of a command."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        subprocess.run(command, capture_output=True, check=False)
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def commands() -> None:
    say("wall time, median of 5 (vllm: of 2)")
    bare = wall_s(sys.executable, "-c", "import typer")
    for name, command, repeats in (
        ("python -c 'import typer'", [sys.executable, "-c", "import typer"], 5),
        ("speccli --help", [BIN / "speccli", "--help"], 5),
        ("speccli doctor --offline", [BIN / "speccli", "doctor", "--offline"], 5),
        ("vllm --help", [BIN / "vllm", "--help"], 2),
    ):
        took = wall_s(*command, repeats=repeats)
        say(f"  {name:28} {took:7.3f} s   {took / bare:6.1f} x import typer")


def throughput() -> None:
    for method in ("none", "ngram"):
        settings = {"method": method}
        theirs = measured("vllm", settings, BATCH)["batch_tokens_per_s"]
        ours = measured("speccli", settings, BATCH)["batch_tokens_per_s"]
        again = measured("vllm", settings, BATCH)["batch_tokens_per_s"]
        ratio = statistics.mean(ours) / statistics.mean(theirs + again)
        say(
            f"batch of 64 prompts x 64 tokens, method {method}: LLM.generate {theirs + again}, speccli {ours} tokens/s: ratio {ratio:.3f}"
        )


def speculation() -> None:
    plain = measured("speccli", {"method": "none"}, SINGLE)["single_tokens_per_s"][0]
    ngram = measured("speccli", {"method": "ngram"}, SINGLE)["single_tokens_per_s"][0]
    say(
        f"batch 1, 20 sample prompts, up to 64 tokens: plain {plain}, n-gram {ngram} tokens/s: ratio {ngram / plain:.2f}"
    )


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201


if __name__ == "__main__":
    commands()
    speculation()
    throughput()
