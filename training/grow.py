"""python -m training.grow: hours of work in one command. Round by round more data, more training, a measurement, an export.

Killed at any moment, the same command goes on: every step skips what is done.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path


def main() -> None:
    options = _options()
    checkpoint, curve = options.data / f"{options.method}.pt", options.data / "curve.jsonl"
    options.data.mkdir(parents=True, exist_ok=True)
    heldout = ["--split", "heldout", "--conversations", str(options.heldout)]
    _together(options, [["--split", "profiles/prompts/sample.jsonl"], heldout])
    for number in range(1, options.rounds + 1):
        updates = number * options.updates
        if updates in _measured(curve, options.method):
            continue
        wanted = ["--conversations", str(number * options.conversations), "--parts", str(options.processes)]
        _together(options, [[*wanted, "--part", str(part)] for part in range(options.processes)])
        _run(options.method, options, ["--checkpoint", str(checkpoint), "--updates", str(updates)])
        _run("evaluate", options, ["--checkpoint", str(checkpoint), "--curve", str(curve)])
        _export(options, checkpoint, curve)
    _export(options, checkpoint, curve)


def _export(options: argparse.Namespace, checkpoint: Path, curve: Path) -> None:
    """Where the head that lies there is older than what was trained."""
    folder = options.data / "heads" / options.method
    card = folder / "README.md"  # written last
    if card.exists() and card.stat().st_mtime >= checkpoint.stat().st_mtime:
        return
    exported = [*_module("export", options), "--checkpoint", str(checkpoint), "--curve", str(curve)]
    subprocess.run([*exported, "--to", str(folder)], check=True)


def _measured(curve: Path, method: str) -> set[int]:
    """After how many updates this head has been measured on both kinds of questions."""
    lines = [json.loads(line) for line in curve.read_text(encoding="utf-8").splitlines()] if curve.exists() else []
    by_split = [{line["updates"] for line in lines if (line["method"], line["split"]) == (method, split)}
                for split in ("heldout", "sample")]  # fmt: skip
    return set.intersection(*by_split)


def _together(options: argparse.Namespace, arguments: list[list[str]]) -> None:
    """Several generators side by side, one thread each: on a busy machine they do not wait for one another."""
    command = [*_module("generate", options), "--data", str(options.data), "--threads", "1"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    running = [subprocess.Popen([*command, *each], env=environment) for each in arguments]
    if failed := [process.args for process in running if process.wait()]:
        raise SystemExit(f"failed: {failed}")


def _run(name: str, options: argparse.Namespace, arguments: list[str]) -> None:
    command = [*_module(name, options), "--data", str(options.data), "--threads", str(options.processes)]
    subprocess.run([*command, *arguments], check=True)


def _module(name: str, options: argparse.Namespace) -> list[str]:
    target = ["--target", str(options.target)] if options.target else []
    return [sys.executable, "-m", f"training.{name}", *target]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder of shards, checkpoints and the curve")
    parser.add_argument("--method", choices=["eagle3", "medusa"], default="eagle3")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--conversations", type=int, default=600, help="new ones in a round: some 130,000 tokens")
    parser.add_argument(
        "--updates", type=int, default=400, help="of the head in a round: some three passes over as much"
    )
    parser.add_argument("--heldout", type=int, default=96, help="conversations to measure on")
    parser.add_argument("--target", type=Path, help="a folder; the embedded default if not given")
    parser.add_argument("--processes", type=int, default=2, help="generators at a time, and threads of the trainer")
    return parser.parse_args()


if __name__ == "__main__":
    main()
