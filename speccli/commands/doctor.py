"""`speccli doctor`: what is wrong with this machine, and what to do about it."""

import os
import shlex
import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

import speccli
from speccli import hardware, paths, profile
from speccli.colour import paint, wants_colour
from speccli.commands.plan_text import plan_lines
from speccli.diagnose import Finding, Group, Severity, exit_code
from speccli.diagnose.environment import environment, there
from speccli.diagnose.facts import Facts, differs, gather, of_another
from speccli.diagnose.pair import pair
from speccli.diagnose.plan import Outlook, outlook
from speccli.diagnose.settings import settings
from speccli.diagnose.sight import look
from speccli.diagnose.speculation import Sense, sense, speculation
from speccli.errors import ExitCode
from speccli.hardware import Hardware
from speccli.pairing import Pairing
from speccli.profile import Profile, Settings
from speccli.profile.users import write

SCHEMA_VERSION = 1
COLOURS: dict[Severity, str] = {"ok": "32", "info": "36", "warning": "33", "error": "1;31"}
WIDEST = 100
NOTHING = Settings()
NOTHING_BEFORE: Mapping[str, Sequence[str]] = {}


def doctor(
    typed: Settings = NOTHING,
    file: Path | None = None,
    as_json: bool = False,
    offline: bool = False,
    fix: bool = False,
    *,
    facts: Facts | None = None,
) -> ExitCode:
    """Prints the report; with `fix` the first change that makes the pairing fit goes into the user's profile.

    `facts` stand in for those of the machine at hand.
    """
    asked = profile.load(typed, file)
    report = examine(asked, facts or _facts(asked.settings.hardware, offline), pull_command(typed, file))
    if as_json:
        sys.stdout.write(json_report(report) + "\n")
    else:
        sys.stdout.write(text(report, width=report_width(), colour=wants_colour(sys.stdout)))
    if fix:
        sys.stderr.write(put_right(report.outlook, typed, file))
    return report.code


def report_width() -> int:
    """Columns for running text, on the terminal at hand."""
    return min(WIDEST, shutil.get_terminal_size().columns)


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All that was found."""

    machine: Hardware
    groups: tuple[Group, ...]
    outlook: Outlook
    sense: Sense | None

    @property
    def findings(self) -> list[Finding]:
        return [finding for group in self.groups for finding in group.findings]

    @property
    def code(self) -> ExitCode:
        return exit_code(self.findings)


def examine(asked: Profile, facts: Facts, pull: str) -> Report:
    """A machine that is not this one is judged alone: what is wrong here says nothing about it."""
    elsewhere = facts.is_elsewhere
    machine = facts.planned if facts.planned is not None and elsewhere else facts.machine
    surroundings = there(facts) if elsewhere else environment(facts)
    sight = look(asked, machine, facts.hub)
    paired, planned = pair(sight, pull), outlook(asked, sight, pull)
    found = sense(planned.plan) if planned.plan is not None else None
    groups = [*surroundings, *([settings(planned.plan)] if planned.plan is not None else [])]
    groups += [_not_of_here(paired) if elsewhere else paired, planned.group]
    if planned.plan is not None:
        groups.append(_unrepeated(speculation(planned.plan, found), paired))
    return Report(
        machine=machine,
        groups=tuple(group for group in groups if group.findings),
        outlook=planned,
        sense=found,
    )


def _facts(name: str | None, offline: bool) -> Facts:
    planned = hardware.resolve(name) if name else None
    here = hardware.detect()
    if planned is not None and differs(planned, here):
        return of_another(planned, here, offline=offline)
    return gather(planned, offline=offline)


def put_right(made: Outlook, typed: Settings, file: Path | None) -> str:
    """Write the first fix, and what was typed with it, so that the next run is the same; return what to say."""
    estimate = made.plan.estimate if made.plan is not None else None
    if estimate is None or estimate.verdict == "fits":
        wrong = next((finding for finding in made.group.findings if finding.severity == "error"), None)
        return f"--fix mends memory alone; of {wrong.title}: {wrong.fix}\n" if wrong else "nothing to fix\n"
    found = next((fix for fix in made.fixes if "hardware" not in fix.changes), None)
    if found is None:
        return "no change of settings makes it fit this machine\n"
    given = {key: value for key, value in msgspec.structs.asdict(typed).items() if value is not None}
    changes = {key: value for key, value in given.items() if key != "hardware"} | found.changes
    users = profile.named_file(file) if file is not None else paths.config_dir() / "config.yaml"
    stronger = "".join(f"  {place}\n" for place in _stronger(changes, users, file))
    if stronger:
        return f"nothing was written: stronger than {users} is\n{stronger}"
    difference = write(users, changes)
    return f"{difference or f'{users} says so already'}\n{found.told}\n"


def _stronger(changes: Mapping[str, Any], users: Path, file: Path | None) -> Iterator[str]:
    """Where the next run would take another value from than the one that is written, and what to do there."""
    for key, value in changes.items():
        rest = profile.load(NOTHING, file if value is not None else None)
        source = rest.sources.get(key, str(users))
        if source == str(users) or getattr(rest.settings, key) == value:
            continue
        if source == "environment":
            yield f"{_variable(key)}: {'unset it' if value is None else f'set it to {_said(value)}'}"
        elif value is None:
            yield f"{source}: take {key} out"


def _variable(key: str) -> str:
    """Of the environment, that sets this key."""
    own = f"{profile.PREFIX}{key}".upper()
    names = (name for name in os.environ if name.upper() == own)
    others = (name for name, other in profile.VLLM_VARIABLES.items() if other == key)
    return next(names, None) or next(others, own)


def _said(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _not_of_here(group: Group) -> Group:
    """Packages of this environment do not matter to another machine."""
    kept = tuple(finding for finding in group.findings if finding.id != "pair.packages")
    return Group(title=group.title, findings=kept)


def _unrepeated(group: Group, paired: Group) -> Group:
    """The pair check has counted the parameters, where the checkpoints are here."""
    told = {finding.id.partition(".")[2] for finding in paired.findings}
    kept = tuple(finding for finding in group.findings if finding.id.partition(".")[2] not in told)
    return Group(title=group.title, findings=kept)


def pull_command(typed: Settings, file: Path | None = None) -> str:
    """What fetches the checkpoints of the same pairing."""
    told = {"--profile": file} | {
        f"--{key}": getattr(typed, key) for key in ("target", "method", "speculator", "hardware")
    }
    options = [str(part) for option, value in told.items() if value is not None for part in (option, value)]
    return shlex.join(["speccli", "pull", *options])


def json_report(report: Report) -> str:
    """One object; new keys may come, those that are there stay.

    `plan` and `speculation` are null where they could not be made; intervals are objects of `low` and `high`.
    """
    told = {
        "schema_version": SCHEMA_VERSION,
        "speccli": speccli.__version__,
        "exit_code": int(report.code),
        "hardware": report.machine,
        "pairing": _pairing(report.outlook.pairing),
        "plan": _plan(report.outlook),
        "speculation": report.sense,
        "findings": [
            {"group": group.title, **msgspec.structs.asdict(finding)}
            for group in report.groups
            for finding in group.findings
        ],
    }
    return msgspec.json.encode(told).decode()


def _pairing(chosen: Pairing) -> dict[str, Any]:
    names = ("target", "method", "num_speculative_tokens", "speculator", "reason")
    return {name: getattr(chosen, name) for name in names}


def _plan(made: Outlook) -> dict[str, Any] | None:
    estimate = made.plan.estimate if made.plan is not None else None
    if estimate is None:
        return None
    least, most = estimate.concurrency
    return {
        **msgspec.structs.asdict(estimate),
        "concurrency": {"low": round(least, 2), "high": round(most, 2)},
        "fixes": made.fixes,
    }


def text(report: Report, *, width: int, colour: bool) -> str:
    """The groups, with a bar of the memory before the plan's findings."""
    estimate = report.outlook.plan.estimate if report.outlook.plan is not None else None
    if estimate is None:
        return text_report(report.groups, width=width, colour=colour)
    chosen = report.outlook.pairing
    title = f"{chosen.target}, {chosen.how}, on {report.machine.name}"
    picture = plan_lines(title, estimate, report.outlook.fixes, width=width, colour=colour)
    return text_report(report.groups, width=width, colour=colour, before={"Plan": picture})


def text_report(
    groups: Sequence[Group], *, width: int, colour: bool, before: Mapping[str, Sequence[str]] = NOTHING_BEFORE
) -> str:
    """Groups of lines `severity  title  evidence`; below a line its cause and its fix."""
    findings = [finding for group in groups for finding in group.findings]
    title_width = max(len(finding.title) for finding in findings)
    lines: list[str] = []
    for group in groups:
        lines += [*before.get(group.title, ()), paint(group.title, "1", colour)]
        for finding in group.findings:
            lines += _finding(finding, title_width, width, colour)
        lines += [""]
    return "\n".join([*lines, _summary(findings), ""])


def _finding(finding: Finding, title_width: int, width: int, colour: bool) -> list[str]:
    severity = paint(f"{finding.severity:<7}", COLOURS[finding.severity], colour)
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
    return [f"{'':11}{paint(label + ':', '2', colour)} {first}", *(" " * indent + line for line in rest)]


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
