"""What shows of a pairing's checkpoints, on this machine or in headers on the hub: looked at once, for all who judge them."""

from __future__ import annotations

import dataclasses
import queue
import threading
from collections.abc import Callable
from typing import TypeVar

from speccli import checkpoint, pairing
from speccli.checkpoint import Inspected, hub
from speccli.diagnose.hub import Hub
from speccli.errors import SpeccliError
from speccli.hardware import Hardware
from speccli.pairing import Pairing
from speccli.profile import Profile
from speccli.source import HubSource, Source

HUB_TIMEOUT_S = 6.0
"""For all questions about a pair together, which take one or two seconds."""

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What is to run on a machine, and what its checkpoints show."""

    completed: Profile
    machine: Hardware
    chosen: Pairing
    seen: Inspected | None = None
    absent: tuple[Source, ...] = ()
    """What of it is not on this machine; `seen` is then what the hub tells."""
    unseen: str = ""
    """Why the hub tells nothing."""
    refusal: SpeccliError | None = None
    """What is damaged here, or not given by the hub."""


def look(asked: Profile, machine: Hardware, answer: Hub | None = None) -> Sight:
    """`answer` is the hub's; without one it is left alone."""
    completed, chosen = pairing.resolve(asked, machine)
    sight = Sight(completed=completed, machine=machine, chosen=chosen)
    try:
        seen = checkpoint.find(chosen)
        if seen is not None:
            return dataclasses.replace(sight, seen=seen)
        absent = _absent(chosen)
        seen, unseen = _on_the_hub(chosen, absent, answer)
        return dataclasses.replace(sight, seen=seen, absent=absent, unseen=unseen)
    except SpeccliError as error:
        return dataclasses.replace(sight, refusal=error)


def _absent(chosen: Pairing) -> tuple[Source, ...]:
    sources = dict.fromkeys((chosen.target_source, chosen.speculator_source))
    return tuple(source for source in sources if source is not None and checkpoint.locate(source) is None)


def _on_the_hub(chosen: Pairing, absent: tuple[Source, ...], answer: Hub | None) -> tuple[Inspected | None, str]:
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
