"""What doctor finds: each rule is one function from facts to at most one finding."""

from collections.abc import Iterable
from typing import Literal

import msgspec

from speccli.errors import ExitCode

Severity = Literal["ok", "info", "warning", "error"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the report, and, where something is not right, why and what to do."""

    id: str
    """Stable, such as "env.torch-build": scripts may look for it."""
    severity: Severity
    title: str
    """What was looked at, in a word or two."""
    evidence: str
    """What was seen."""
    cause: str = ""
    fix: str = ""
    """A command, or a setting."""
    stops_runs: bool = False
    """Nothing can run on this machine until it is put right."""


class Group(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    findings: tuple[Finding, ...]


def exit_code(findings: Iterable[Finding]) -> ExitCode:
    """What a shell learns of the findings."""
    wrong = [finding for finding in findings if finding.severity in ("warning", "error")]
    if any(finding.stops_runs for finding in wrong):
        return ExitCode.MACHINE
    return ExitCode.FINDINGS if wrong else ExitCode.DONE
