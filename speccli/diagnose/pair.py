"""Whether the checkpoints of a pairing go together, as far as that shows on this machine and in headers on the hub."""

from __future__ import annotations

import dataclasses
import queue
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

from speccli import checkpoint, paircheck, pairing
from speccli.checkpoint import Inspected, hub
from speccli.diagnose import Finding, Group
from speccli.diagnose.hub import Hub
from speccli.errors import SpeccliError
from speccli.hardware import Hardware
from speccli.paircheck import Fault, Pair
from speccli.pairing import Pairing, packages
from speccli.profile import Profile
from speccli.source import HubSource, Source, described

HUB_TIMEOUT_S = 6.0
"""For all questions about a pair together, which take one or two seconds."""

T = TypeVar("T")


def pair(asked: Profile, machine: Hardware, pull: str, answer: Hub | None = None) -> Group:
    """`pull` is the command that fetches the checkpoints, `answer` the hub's; without one it is left alone."""
    completed, chosen = pairing.resolve(asked, machine)
    findings = (_choice(chosen), *_packages(chosen), *_findings(completed, machine, chosen, pull, answer))
    return Group(title="Pair", findings=findings)


def _findings(
    completed: Profile, machine: Hardware, chosen: Pairing, pull: str, answer: Hub | None
) -> Iterator[Finding]:
    try:
        seen = checkpoint.find(chosen)
        if seen is None:
            absent = _absent(chosen)
            seen, unseen = _on_the_hub(chosen, absent, answer)
            yield _not_fetched(absent, pull, unseen, is_seen=seen is not None)
        if seen is not None:
            yield from _conversions(seen)
            yield from _checked(paircheck.pair_of(completed, machine, chosen, seen))
    except SpeccliError as error:
        yield Finding(
            id="pair.checkpoint", severity="error", title="checkpoint", evidence=error.message, fix=error.hint
        )


def _choice(chosen: Pairing) -> Finding:
    how = f"{chosen.method}, k={chosen.num_speculative_tokens}" if chosen.is_speculative else "plain decoding"
    if chosen.speculator_source is not None:
        how += f", speculator {described(chosen.speculator_source)}"
    return Finding(id="pair.choice", severity="ok", title="choice", evidence=f"{chosen.target}, {how}")


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


def _absent(chosen: Pairing) -> list[Source]:
    sources = dict.fromkeys((chosen.target_source, chosen.speculator_source))
    return [source for source in sources if source is not None and checkpoint.locate(source) is None]


def _on_the_hub(chosen: Pairing, absent: list[Source], answer: Hub | None) -> tuple[Inspected | None, str]:
    """What headers on the hub tell, or why nothing was seen there. Raises `SpeccliError` where the hub says no."""
    if not any(isinstance(source, HubSource) for source in absent):
        return None, ""
    if answer is None or answer.offline_because:
        return None, f"the hub was not asked: {answer.offline_because}" if answer else ""
    if answer.error:
        return None, f"{answer.endpoint} cannot be reached: {answer.error}"
    try:
        return _within(HUB_TIMEOUT_S, lambda: _inspected(chosen)), ""
    except TimeoutError:
        return None, f"{answer.endpoint} did not answer within {HUB_TIMEOUT_S:g} s"
    except SpeccliError as error:
        if isinstance(error.__cause__, Exception) and hub.is_unreachable(error.__cause__):
            return None, error.message
        raise


def seen_on_the_hub(chosen: Pairing, answer: Hub | None) -> Inspected | None:
    """What headers on the hub tell, for sizes; None where they cannot be read, which the pair's group tells of."""
    try:
        return _on_the_hub(chosen, _absent(chosen), answer)[0]
    except SpeccliError:
        return None


def _inspected(chosen: Pairing) -> Inspected | None:
    at = dataclasses.replace(hub.from_client(), waits_s=())
    return checkpoint.glance(chosen, checkpoint.look(chosen, lambda _: None, at))


def _within(limit_s: float, call: Callable[[], T]) -> T:
    """The result of `call`, or its exception; `TimeoutError` after a while, whatever it waits for."""
    results: queue.SimpleQueue[T | Exception] = queue.SimpleQueue()

    def work() -> None:
        try:
            results.put(call())
        except Exception as error:
            results.put(error)

    threading.Thread(target=work, daemon=True).start()
    try:
        result = results.get(timeout=limit_s)
    except queue.Empty:
        raise TimeoutError from None
    if isinstance(result, Exception):
        raise result
    return result


def _not_fetched(absent: list[Source], pull: str, unseen: str, *, is_seen: bool) -> Finding:
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
