"""Whether the checkpoints of a pairing go together, as far as that shows on this machine and in headers on the hub."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from speccli import paircheck
from speccli.checkpoint import Inspected
from speccli.diagnose import Finding, Group
from speccli.diagnose.sight import Sight
from speccli.errors import SpeccliError
from speccli.paircheck import Fault, Pair
from speccli.pairing import Pairing, packages
from speccli.source import Source, described


def pair(sight: Sight, pull: str) -> Group:
    """`pull` is the command that fetches the checkpoints."""
    findings = (_choice(sight.chosen), *_packages(sight.chosen), *_findings(sight, pull))
    return Group(title="Pair", findings=findings)


def _findings(sight: Sight, pull: str) -> Iterator[Finding]:
    try:
        if sight.refusal is not None:
            raise sight.refusal
        if sight.absent:
            yield _not_fetched(sight.absent, pull, sight.unseen, is_seen=sight.seen is not None)
        if sight.seen is not None:
            yield from _conversions(sight.seen)
            yield from _checked(paircheck.pair_of(sight.completed, sight.machine, sight.chosen, sight.seen))
    except SpeccliError as error:
        yield Finding(
            id="pair.checkpoint", severity="error", title="checkpoint", evidence=error.message, fix=error.hint
        )


def _choice(chosen: Pairing) -> Finding:
    head = f", speculator {described(chosen.speculator_source)}" if chosen.speculator_source is not None else ""
    evidence = f"{chosen.target}, {chosen.how}{head}"
    return Finding(id="pair.choice", severity="ok", title="choice", evidence=evidence)


def _packages(chosen: Pairing) -> Iterator[Finding]:
    missing = packages.missing(chosen.method, chosen.listed)
    if missing:
        yield Finding(
            id="pair.packages",
            severity="error",
            title="packages",
            evidence=f"{' and '.join(missing)} not installed",
            cause=f"vLLM needs that for {chosen.method}, and does not bring it along",
            fix=packages.install(missing),
        )


def _not_fetched(absent: Sequence[Source], pull: str, unseen: str, *, is_seen: bool) -> Finding:
    here = "what follows is read from headers on the hub"
    cause = here if is_seen else "whether target and speculator go together shows in their files"
    return Finding(
        id="pair.not-fetched",
        severity="info",
        title="checkpoints",
        evidence=f"{' and '.join(map(described, absent))} not fetched yet",
        cause=f"{cause}; {unseen}" if unseen else cause,
        fix=pull,
    )


def _conversions(seen: Inspected) -> Iterator[Finding]:
    for found in (seen.target, seen.speculator):
        if found is not None and found.remade is not None:
            yield Finding(
                id="pair.conversion",
                severity="info",
                title="conversion",
                evidence=f"{found.inspection.name}: {'; '.join(found.remade.reasons)}",
                cause="speccli gives the engine a converted copy",
            )


def _checked(made: Pair) -> Iterator[Finding]:
    faults = paircheck.check(made)
    yield from map(_finding, faults)
    if all(fault.severity == "info" and not fault.id.endswith("-unread") for fault in faults):
        evidence = "target and speculator go together" if made.speculator else "the target takes this method"
        yield Finding(id="pair.check", severity="ok", title="check", evidence=evidence)


def _finding(fault: Fault) -> Finding:
    return Finding(
        id=fault.id,
        severity=fault.severity,
        title=fault.id.removeprefix("pair."),
        evidence=fault.evidence,
        cause=fault.cause,
        fix=fault.fix,
    )
