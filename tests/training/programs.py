"""The programs of training/, each in a process of its own, as a user runs them."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(name: str, *arguments: object) -> None:
    command = [sys.executable, "-m", f"training.{name}", *[str(argument) for argument in arguments]]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
