"""What a batch says and leaves when it has ended: how to go on, and the file of `--summary`."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from speccli import jsonl, whole
from speccli.errors import MachineError, UsageError
from speccli.jsonl.places import is_device, real
from speccli.progress import Summary, is_summary

MAX_SUMMARY_BYTES = 2**20


def how_to_go_on(policy: jsonl.Policy, can_resume: bool, reads_stream: bool) -> str:
    """What to type after a run that was stopped."""
    if not can_resume:
        return "nothing tells which lines are done: a run goes on only from a file that -o names"
    return f"the same command{_changed(policy, reads_stream)} goes on from here"


def how_to_retry(policy: jsonl.Policy, can_resume: bool, reads_stream: bool, where: Path | str) -> list[str]:
    """What to do about failed lines, whose records are in that file."""
    told = f'such lines have an "error" in {where}'
    if not can_resume or reads_stream:
        return [told]
    return [
        f"{told}; with --retry-failed the same command{_changed(policy, reads_stream)} answers them again",
        "(where lines are mended first, leave each in its place and add --force: one without an id is known by its number)",
    ]


def check_summary(file: Path, overwrite: bool) -> None:
    """Refuse a place where no summary can be written, and somebody else's file."""
    if is_device(file):
        return
    folder = real(file).parent
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"cannot write {file}: {folder} may not be written to", "name a file in another folder")
    if not overwrite and file.exists() and not is_own_summary(file):
        raise UsageError(f"{file} exists already, and is no summary", "name another file, or add --overwrite")


def is_own_summary(file: Path) -> bool:
    """Whether an earlier run wrote it; an empty file is as good as none."""
    if not os.path.isfile(file):  # noqa: PTH113 - False, too, where that cannot be asked
        return False
    try:
        with file.open("rb") as opened:
            content = opened.read(MAX_SUMMARY_BYTES)
    except OSError:
        return False
    return not content or is_summary(content)


def write_summary(file: Path, told: Summary) -> MachineError | None:
    """Write it, whole or not at all; returns what kept it from being written."""
    content = msgspec.json.format(msgspec.json.encode(told), indent=2) + b"\n"
    try:
        if is_device(file):
            file.write_bytes(content)
        else:
            whole.write(file, content)
    except OSError as error:
        return MachineError(f"cannot write {file}: {error.strerror}", "name a file that can be written")
    except UsageError as error:
        return MachineError(error.message, error.hint)
    return None


def _changed(policy: jsonl.Policy, reads_stream: bool) -> str:
    """How the command has to be changed before it goes on from its output, instead of refusing it or emptying it."""
    less = ["--overwrite"] if policy.overwrite else []
    less += ["--no-resume"] if policy.resume is False else []
    without = f" without {' and '.join(less)}" if less else ""
    if not reads_stream:
        return without
    more = "" if policy.resume else " with --resume"
    return f"{without}{' but' if without and more else ''}{more}, given the same lines,"
