"""`speccli doctor`: what is wrong with this machine, and what to do about it."""

import os
import shlex
import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TextIO

import msgspec

import speccli
from speccli import hardware, profile
from speccli.diagnose import Finding, Group, Severity, exit_code
from speccli.diagnose.environment import environment
from speccli.diagnose.facts import Facts, gather
from speccli.diagnose.pair import pair
from speccli.errors import ExitCode
from speccli.profile import Settings

SCHEMA_VERSION = 1
COLOURS: dict[Severity, str] = {"ok": "32", "info": "36", "warning": "33", "error": "1;31"}
WIDEST = 100
NOTHING = Settings()


def doctor(
    typed: Settings = NOTHING,
    file: Path | None = None,
    as_json: bool = False,
    offline: bool = False,
    *,
    facts: Facts | None = None,
) -> ExitCode:
    """Prints the report. `facts` stand in for those of the machine at hand."""
    asked = profile.load(typed, file)
    if facts is None:
        name = asked.settings.hardware
        facts = gather(hardware.resolve(name) if name else None, offline=offline)
    groups = (*environment(facts), pair(asked, facts.planned or facts.machine, pull_command(typed, file)))
    code = exit_code(finding for group in groups for finding in group.findings)
    if as_json:
        sys.stdout.write(json_report(facts, groups, code) + "\n")
    else:
        width = min(WIDEST, shutil.get_terminal_size().columns)
        sys.stdout.write(text_report(groups, width=width, colour=wants_colour(sys.stdout)))
    return code


def pull_command(typed: Settings, file: Path | None = None) -> str:
    """What fetches the checkpoints of the same pairing."""
    told = {"--profile": file} | {
        f"--{key}": getattr(typed, key) for key in ("target", "method", "speculator", "hardware")
    }
    options = [str(part) for option, value in told.items() if value is not None for part in (option, value)]
    return shlex.join(["speccli", "pull", *options])


def json_report(facts: Facts, groups: Iterable[Group], code: ExitCode) -> str:
    """One object; new keys may come, those that are there stay."""
    report = {
        "schema_version": SCHEMA_VERSION,
        "speccli": speccli.__version__,
        "exit_code": int(code),
        "hardware": facts.planned or facts.machine,
        "findings": [
            {"group": group.title, **msgspec.structs.asdict(finding)} for group in groups for finding in group.findings
        ],
    }
    return msgspec.json.encode(report).decode()


def text_report(groups: Sequence[Group], *, width: int, colour: bool) -> str:
    """Groups of lines `severity  title  evidence`; below a line its cause and its fix."""
    findings = [finding for group in groups for finding in group.findings]
    title_width = max(len(finding.title) for finding in findings)
    lines: list[str] = []
    for group in groups:
        lines += [_paint(group.title, "1", colour)]
        for finding in group.findings:
            lines += _finding(finding, title_width, width, colour)
        lines += [""]
    return "\n".join([*lines, _summary(findings), ""])


def wants_colour(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _finding(finding: Finding, title_width: int, width: int, colour: bool) -> list[str]:
    severity = _paint(f"{finding.severity:<7}", COLOURS[finding.severity], colour)
    indent = 2 + 7 + 2 + title_width + 2
    first, *rest = _wrap(finding.evidence, width - indent)
    lines = [f"  {severity}  {finding.title:<{title_width}}  {first}", *(" " * indent + line for line in rest)]
    for label, text in (("why", finding.cause), ("fix", finding.fix)):
        if text:
            lines += _labelled(label, text, width, colour)
    return lines


def _labelled(label: str, text: str, width: int, colour: bool) -> list[str]:
    indent = 2 + 7 + 2 + 5
    first, *rest = _wrap(text, width - indent)
    return [f"{'':11}{_paint(label + ':', '2', colour)} {first}", *(" " * indent + line for line in rest)]


def _wrap(text: str, width: int) -> list[str]:
    """Paths and options stay whole, so that they can be copied."""
    return textwrap.wrap(text, max(width, 20), break_long_words=False, break_on_hyphens=False)


def _summary(findings: Iterable[Finding]) -> str:
    counts = Counter(finding.severity for finding in findings)
    errors, warnings = counts["error"], counts["warning"]
    if not errors and not warnings:
        return "Nothing is wrong."
    return f"{_number(errors, 'error')}, {_number(warnings, 'warning')}.".capitalize()


def _number(count: int, noun: str) -> str:
    return f"{count or 'no'} {noun}{'' if count == 1 else 's'}"


def _paint(text: str, code: str, colour: bool) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if colour else text
