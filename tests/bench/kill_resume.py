"""kill -9 at random moments of a batch on the real engine, resume, compare with an uninterrupted run (about a minute a kill).

python tests/bench/kill_resume.py [--kills 20] [--prompts 120] [--seed 0]
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.batch import ROOT, SETTINGS, say, write_prompts


def records(file: Path) -> dict[str, Any]:
    """The answers by id, without what differs from run to run. Raises where an id comes twice."""
    found: dict[str, Any] = {}
    for line in file.read_bytes().splitlines():
        record = json.loads(line)
        name = record["custom_id"]
        if name in found:
            raise SystemExit(f"{name} is written twice in {file}")
        choice = record["response"]["body"]["choices"][0]
        found[name] = (choice["message"]["content"], choice["finish_reason"], record["response"]["body"]["usage"])
    return found


def command(folder: Path, out: str) -> list[str | Path]:
    return [
        sys.executable, "-m", "speccli", "batch", folder / "in.jsonl", "-o", folder / out, "--profile", folder / "profile.yaml",
    ]  # fmt: skip


def killed(folder: Path, out: Path, until_bytes: int, log: Path) -> bool:
    """Run until the output holds so many bytes, then kill -9; whether it was killed before it ended."""
    with log.open("ab") as file:
        process = subprocess.Popen(command(folder, out.name), cwd=ROOT, stdout=file, stderr=file)
        while process.poll() is None and _size(out) < until_bytes:
            time.sleep(0.005)
        process.kill()
        return process.wait() == -signal.SIGKILL


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--prompts", type=int, default=120)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as named:
        folder = Path(named)
        write_prompts(folder / "in.jsonl", asked.prompts)
        settings = {**SETTINGS, "dtype": "float32"}  # in bfloat16 an answer differs with its neighbours in the batch
        (folder / "profile.yaml").write_text(json.dumps(settings))
        subprocess.run(command(folder, "whole.jsonl"), cwd=ROOT, check=True)
        whole = _size(folder / "whole.jsonl")
        out, chance = folder / "out.jsonl", random.Random(asked.seed)
        kills = 0
        for at_bytes in sorted(chance.randrange(1, whole) for _ in range(asked.kills)):
            kills += killed(folder, out, max(at_bytes, _size(out) + 1), folder / "log")
            say(f"kill {kills} at {_size(out)} of {whole} bytes")
        subprocess.run(command(folder, "out.jsonl"), cwd=ROOT, check=True)
        once, again = records(folder / "whole.jsonl"), records(out)
        differing = [name for name in once if again.get(name) != once[name]]
        say(
            f"{kills} kills: {len(again)} of {len(once)} records, {len(differing)} differ from the uninterrupted run {differing}"
        )
        sys.exit(bool(differing) or len(again) != len(once))


if __name__ == "__main__":
    main()
