"""The tensors of a head against those that vLLM's class for it holds."""

from __future__ import annotations

from collections.abc import Iterator

from speccli.checkpoint import heads
from speccli.checkpoint.inspection import Inspection
from speccli.paircheck.fault import Fault, Pair, error, info

REFETCH = "fetch the checkpoint again, or use another one"


def check(pair: Pair, head: Inspection, told: frozenset[str] = frozenset()) -> Iterator[Fault]:
    """`told` are tensors of which a more telling rule speaks."""
    expected, there = heads.expected(head, pair.method), heads.shapes(head)
    if expected is None:
        return
    yield from _missing(head, [name for name in expected.missing(there) if name not in told])
    yield from _unexpected(head, [name for name in expected.unexpected(there) if name not in told])
    for name, have, want in expected.misshapen(there):
        if name not in told:
            yield error(
                "weights-shape",
                f"{name} in {head.name} is {list(have)}, by its config {list(want)}",
                "tensors and config.json do not belong together",
                REFETCH,
            )


def unread(head: Inspection) -> Fault:
    return info(
        "weights-unread",
        f"the weights of {head.name} are pickles that were not opened",
        "whether they go together with the target shows in their tensors alone",
        "nothing: a run opens them, which takes some seconds, and checks the pair before it downloads the target",
    )


def _missing(head: Inspection, names: list[str]) -> Iterator[Fault]:
    if names:
        yield error(
            "weights-missing",
            f"{head.name} lacks {_some(names)}",
            "vLLM starts without a word and leaves them as memory happened to be",
            REFETCH,
        )


def _unexpected(head: Inspection, names: list[str]) -> Iterator[Fault]:
    if names:
        yield error(
            "weights-unexpected",
            f"{head.name} holds {_some(names)}",
            "vLLM stops at tensors that its class does not have",
            "use a checkpoint in its author's layout, or another method",
        )


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
