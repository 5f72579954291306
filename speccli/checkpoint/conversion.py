"""Runs gguf_to_safetensors in a process of its own."""

import subprocess
import sys
from pathlib import Path

from speccli.checkpoint import gguf_to_safetensors
from speccli.errors import CheckpointError, MachineError, SpeccliError


def convert(gguf: Path, folder: Path, kept_log: Path) -> None:
    """Write the checkpoint into `folder`. Only a failure leaves its log."""
    log = gguf.with_suffix(".log")
    command = [sys.executable, "-P", gguf_to_safetensors.__file__, str(gguf), str(folder)]
    with log.open("wb") as output:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        log.replace(kept_log)
        raise _explained(gguf.name, done.returncode, kept_log)
    kept_log.unlink(missing_ok=True)


def _explained(name: str, returncode: int, log: Path) -> SpeccliError:
    text = log.read_text(encoding="utf-8", errors="replace")
    if "[Errno 28]" in text:
        return MachineError(
            f"the disk became full while {name} was converted",
            "free some space, or set SPECCLI_CACHE to a folder on another disk",
        )
    if returncode < 0:
        return MachineError(
            f"the conversion of {name} was killed by signal {-returncode}",
            "most likely memory ran out: close other programs, then run the same command again",
        )
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["it said nothing"]
    return CheckpointError(
        f"{name} could not be converted: {lines[-1]}", f"read {log}, or name another checkpoint in the profile"
    )
