"""Whether the checkpoints of a pairing go together, as far as they are on this machine: nothing is downloaded for it."""

from __future__ import annotations

from collections.abc import Iterator

from speccli import checkpoint, paircheck, pairing
from speccli.checkpoint import Fetched, Found
from speccli.diagnose import Finding, Group
from speccli.errors import SpeccliError
from speccli.hardware import Hardware
from speccli.paircheck import Fault, Pair
from speccli.pairing import Pairing
from speccli.profile import Profile
from speccli.source import described


def pair(asked: Profile, machine: Hardware, pull: str) -> Group:
    """`pull` is the command that fetches the checkpoints."""
    completed, chosen = pairing.resolve(asked, machine)
    return Group(title="Pair", findings=(_choice(chosen), *_findings(completed, machine, chosen, pull)))


def _findings(completed: Profile, machine: Hardware, chosen: Pairing, pull: str) -> Iterator[Finding]:
    try:
        fetched = checkpoint.find(chosen)
        if fetched is None:
            yield _not_fetched(chosen, pull)
        elif fetched.speculator is not None and fetched.speculator.inspection.tensors is None:
            yield _unread(fetched.speculator)
        else:
            yield from _conversions(fetched)
            yield from _checked(paircheck.pair_of(completed, machine, chosen, fetched))
    except SpeccliError as error:
        yield Finding(
            id="pair.checkpoint", severity="error", title="checkpoint", evidence=error.message, fix=error.hint
        )


def _choice(chosen: Pairing) -> Finding:
    how = f"{chosen.method}, k={chosen.num_speculative_tokens}" if chosen.is_speculative else "plain decoding"
    if chosen.speculator_source is not None:
        how += f", speculator {described(chosen.speculator_source)}"
    return Finding(id="pair.choice", severity="ok", title="choice", evidence=f"{chosen.target}, {how}")


def _not_fetched(chosen: Pairing, pull: str) -> Finding:
    sources = dict.fromkeys((chosen.target_source, chosen.speculator_source))
    absent = [described(source) for source in sources if source is not None and checkpoint.locate(source) is None]
    return Finding(
        id="pair.not-fetched",
        severity="info",
        title="checkpoints",
        evidence=f"{' and '.join(absent)} not fetched yet",
        cause="whether target and speculator go together shows in their files",
        fix=pull,
    )


def _unread(speculator: Found) -> Finding:
    return Finding(
        id="pair.weights-unread",
        severity="info",
        title="weights",
        evidence=f"{speculator.inspection.name} comes as a pickle that was not opened yet",
        cause="that takes some seconds; a run does it, checks the pair before the engine starts, and remembers the answer",
    )


def _conversions(fetched: Fetched) -> Iterator[Finding]:
    for found in (fetched.target, fetched.speculator):
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
    if all(fault.severity == "info" for fault in faults):
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
