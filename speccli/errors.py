"""What can go wrong, and what a shell learns of it.

    SpeccliError
    ├── UsageError          what was typed, or a profile, cannot be meant              exit 2
    ├── MachineError        this machine cannot: no device, no vLLM, does not fit      exit 3
    ├── CheckpointError     a checkpoint could not be had; trying again may help       exit 4
    └── EngineFailed        the engine did not start, or died while running            exit 1

Anything outside this tree is a bug and keeps its traceback.
"""

import enum
from pathlib import Path


class ExitCode(enum.IntEnum):
    """The exit codes, an interface: scripts may rely on them."""

    DONE = 0
    FINDINGS = 1
    USAGE = 2
    MACHINE = 3
    CHECKPOINT = 4
    INTERRUPTED = 130


MEANINGS: dict[ExitCode, str] = {
    ExitCode.DONE: "done",
    ExitCode.FINDINGS: "doctor has findings, some requests failed, or the engine failed",
    ExitCode.USAGE: "the command line, a profile or an input file is wrong",
    ExitCode.MACHINE: "this machine cannot: no device, no vLLM, or it does not fit",
    ExitCode.CHECKPOINT: "a checkpoint could not be had (trying again may help)",
    ExitCode.INTERRUPTED: "interrupted",
}


class SpeccliError(Exception):
    """One message that names the thing, and one hint that ends in what to do."""

    exit_code = ExitCode.FINDINGS

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(SpeccliError):
    """What was typed, or what a file says, cannot be meant."""

    exit_code = ExitCode.USAGE


class MachineError(SpeccliError):
    """This machine cannot do it."""

    exit_code = ExitCode.MACHINE


class CheckpointError(SpeccliError):
    """A checkpoint could not be had."""

    exit_code = ExitCode.CHECKPOINT


class EngineFailed(SpeccliError):
    """The engine did not start, or died. `log` is what it left, to be explained where the failure is shown."""

    def __init__(self, message: str, hint: str = "", log: Path | None = None) -> None:
        super().__init__(message, hint)
        self.log = log
