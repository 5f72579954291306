"""The pair check: what a target, a speculator, a method and k tell against each other, before anything is loaded.

Above all it looks for what vLLM 0.32 passes in silence: there the engine starts, and only the acceptance is bad.
Every rule is a pure function of a `Pair`.
"""

from __future__ import annotations

from speccli.paircheck import dflash, draft, eagle, eagle3, fitting, medusa, mtp, names, tokens
from speccli.paircheck.fault import Fault, Pair, Severity

__all__ = ["Fault", "Pair", "Severity", "check"]

GENERAL = (names.check, tokens.check, fitting.check)

BY_METHOD = {
    "draft_model": draft.check,
    "eagle": eagle.check,
    "eagle3": eagle3.check,
    "medusa": medusa.check,
    "mtp": mtp.check,
    "dflash": dflash.check,
    "dspark": dflash.check,
}


def check(pair: Pair) -> list[Fault]:
    """All faults, the worst first. A speculator of the wrong kind is told once, and not in all that follows from it."""
    if contradictions := list(names.contradictions(pair)):
        return contradictions
    rules = [*GENERAL, *([BY_METHOD[pair.method]] if pair.method in BY_METHOD else [])]
    faults = [fault for rule in rules for fault in rule(pair)]
    return sorted(faults, key=lambda fault: ("error", "warning", "info").index(fault.severity))
