"""After a crash: what a log of vLLM, torch, CUDA, NCCL, the hub or Python says, as one cause and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO

import msgspec

from speccli.diagnose import Finding
from speccli.diagnose.failures.context import Context
from speccli.diagnose.failures.kind import AFTERMATH, Advice, Figures, Settings
from speccli.diagnose.failures.kinds import KINDS
from speccli.diagnose.failures.known import Known
from speccli.diagnose.failures.reader import Line, read
from speccli.diagnose.failures.scan import Match, Scan, scan
from speccli.diagnose.failures.signs import is_wrapper

KNOWN = Known(KINDS)

UNKNOWN = "crash.unknown"
MOST_CANDIDATES = 6
LONGEST_QUOTE = 600


_UNKNOWN = "speccli does not know this fault; the line is the likeliest to tell the cause"
_SEARCH = "search the issues of vLLM for that line; speccli doctor checks this machine and the pairing"
_UNSAID = "a process died and this log has no error of its own: the system killed it, it crashed below Python, or its lines are elsewhere"
_LOOK = "`dmesg | grep -i -e kill -e xid -e segfault` tells of the first two; else the log of that process"


class Failure(Finding, frozen=True, kw_only=True):
    """A finding in a log."""

    line: int
    """The line that tells, counted from 1."""
    text: str
    """What it says."""
    process: str = ""
    times: int = 1
    figures: Figures = msgspec.field(default_factory=dict)
    settings: Settings = msgspec.field(default_factory=dict)
    """vLLM's names with the values that put it right, where they can be told."""


class Candidate(msgspec.Struct, frozen=True):
    """Another line that may matter."""

    line: int
    text: str
    process: str = ""
    id: str = ""


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """What a log says. The first finding is the cause; without one nothing wrong was found."""

    findings: tuple[Failure, ...]
    candidates: tuple[Candidate, ...]
    context: Context
    number_of_lines: int
    acceptance: tuple[str, ...] = ()


def explain(stream: BinaryIO) -> Diagnosis:
    """Read a log and say what happened."""
    seen = scan(read(stream), KNOWN)
    matches = sorted(seen.matches, key=_how_telling)
    causes = [match for match in matches if match.kind.severity == "error"]
    others = [match for match in matches if match.kind.severity != "error"]
    found = [_failure(match, seen.context) for match in (*causes[:1], *others)]
    if not causes and (unknown := _unknown(seen)) is not None:
        found.insert(0, unknown)
    return Diagnosis(
        findings=tuple(found),
        candidates=tuple(_candidates(seen, causes[1:], found)),
        context=seen.context,
        number_of_lines=seen.number_of_lines,
        acceptance=seen.acceptance,
    )


def _how_telling(match: Match) -> tuple[int, int]:
    """What explains most comes first, and of equals what was said first: the rest follows from it."""
    return -match.kind.rank, match.line.number


def _failure(match: Match, context: Context) -> Failure:
    kind, line = match.kind, match.line
    context = msgspec.structs.replace(context, phase=match.phase)
    advice = kind.advise(match.figures, context) if kind.advise else Advice()
    return Failure(
        id=kind.id,
        severity=kind.severity,
        title=kind.title,
        evidence=_quoted(line),
        cause=advice.cause or kind.cause,
        fix=advice.fix or kind.fix,
        line=line.number,
        text=_short(line.text),
        process=line.process,
        times=match.times,
        figures=match.figures,
        settings=advice.settings,
    )


def _unknown(seen: Scan) -> Failure | None:
    """A fault that no kind fits, if there was one."""
    is_unsaid = not seen.matches and (seen.died or not seen.was_ready)
    likely = seen.exceptions or (seen.errors if is_unsaid else ())
    if not likely or seen.ended_on_purpose:
        return None
    line = likely[0]
    return Failure(
        id=UNKNOWN,
        severity="error" if seen.died or not seen.was_ready else "warning",
        title="unknown fault",
        evidence=_quoted(line),
        cause=_UNSAID if seen.died and not seen.exceptions else _UNKNOWN,
        fix=_LOOK if seen.died and not seen.exceptions else _SEARCH,
        line=line.number,
        text=_short(line.text),
        process=line.process,
    )


def _candidates(seen: Scan, causes: Iterable[Match], found: Iterable[Failure]) -> Iterable[Candidate]:
    """Other known faults, then the last exceptions of each process; each line once, and what only repeats that it died never."""
    told = {failure.text for failure in found}
    texts: set[str] = set()
    known = [(match.line, match.kind.id) for match in causes if match.kind.rank > AFTERMATH]
    for line, identity in [*known, *((line, "") for line in (*seen.exceptions, *seen.errors))]:
        text = _short(line.text)
        is_new = text not in told and text not in texts and not is_wrapper(line.text)
        if is_new and len(texts) < MOST_CANDIDATES:
            texts.add(text)
            yield Candidate(line.number, text, line.process, identity)


def _quoted(line: Line) -> str:
    who = f" ({line.process})" if line.process else ""
    return f"line {line.number}{who}: {_short(line.text)}"


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]} …"
