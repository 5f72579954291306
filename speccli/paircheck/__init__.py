"""The pair check: what a target, a speculator, a method and k tell against each other, before anything is loaded.

Above all it looks for what vLLM 0.32 passes in silence: there the engine starts, and only the acceptance is bad.
Every rule is a pure function of a `Pair`.
"""

from __future__ import annotations

from collections.abc import Callable

from speccli.checkpoint import Inspected
from speccli.errors import UsageError
from speccli.hardware import Hardware
from speccli.paircheck import dflash, draft, eagle, eagle3, fitting, medusa, mtp, names, tokens, weights
from speccli.paircheck.fault import Fault, Pair, Severity
from speccli.pairing import Pairing
from speccli.profile import Profile

__all__ = ["Fault", "Pair", "Severity", "check", "pair_of", "require"]

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
    """All faults, the worst first. A speculator of the wrong kind is told once, and not in all that follows from it.

    Of one in pickles that nobody opened not even the kind is sure, and what speccli puts right does not show.
    """
    if pair.speculator is not None and pair.speculator.tensors is None:
        return [weights.unread(pair.speculator)]
    if contradictions := list(names.contradictions(pair)):
        return contradictions
    rules = [*GENERAL, *([BY_METHOD[pair.method]] if pair.method in BY_METHOD else [])]
    faults = [fault for rule in rules for fault in rule(pair)]
    return sorted(faults, key=lambda fault: ("error", "warning", "info").index(fault.severity))


def pair_of(profile: Profile, hardware: Hardware, pairing: Pairing, inspected: Inspected) -> Pair:
    """What is to run, its checkpoints as the engine will see them."""
    settings, target = profile.settings, inspected.target.seen
    return Pair(
        target=target,
        speculator=inspected.speculator.seen if inspected.speculator else None,
        method=pairing.method,
        num_speculative_tokens=pairing.num_speculative_tokens,
        tensor_parallel_size=settings.tensor_parallel_size or 1,
        max_model_len=settings.context_length(target.architecture.max_position_embeddings),
        on_cpu=hardware.kind == "cpu",
        config=pairing.config,
    )


def require(pair: Pair, narrate: Callable[[str], None]) -> None:
    """Say what is worth less than it could be. Raises `UsageError` with all that will not run."""
    faults = check(pair)
    errors = [fault for fault in faults if fault.severity == "error"]
    if errors:
        first, *others = errors
        lines = [f"{first.evidence}: {first.cause}", *(f"also: {_in_one_line(fault)}" for fault in others)]
        raise UsageError("\n".join(lines), first.fix)
    for fault in faults:
        if fault.severity == "warning":
            narrate(f"warning: {_in_one_line(fault)}")


def _in_one_line(fault: Fault) -> str:
    return f"{fault.evidence}: {fault.cause}; {fault.fix}"
