"""Draft models."""

from __future__ import annotations

from collections.abc import Iterator

from speccli.checkpoint.config import table
from speccli.checkpoint.inspection import Inspection
from speccli.paircheck import dflash
from speccli.paircheck.fault import Fault, Pair, error, warning

PARD_KEYS = ("pard_token", "ptd_token_id")


def check(pair: Pair) -> Iterator[Fault]:
    head = pair.speculator
    if head is None:
        return
    yield from _layer_types(pair, head)
    yield from _mrope(pair, head)
    yield from _parallel_drafting(pair, head)


def _layer_types(pair: Pair, head: Inspection) -> Iterator[Fault]:
    types = sorted(set(head.architecture.layer_types))
    if len(types) < 2:
        return
    make = error if pair.runner == "V1" else warning
    yield make(
        "draft-layer-types",
        f"{head.name} mixes {' and '.join(types)}",
        "vLLM keeps a draft's cache in one group: its V1 model runner stops, and with V2 nearly nothing was accepted",
        "use a draft of the family with full attention throughout",
    )


def _mrope(pair: Pair, head: Inspection) -> Iterator[Fault]:
    if any("mrope_section" in table(head.model, key) for key in ("rope_scaling", "rope_parameters")):
        make = error if pair.runner == "V1" else warning
        yield make(
            "draft-mrope",
            f"{head.name} turns positions in three axes (mrope_section)",
            "vLLM's draft models know positions along the text only",
            "use a text-only draft of the same tokenizer",
        )


def _parallel_drafting(pair: Pair, head: Inspection) -> Iterator[Fault]:
    is_made_for_it = any(head.model.get(key) is not None for key in PARD_KEYS)
    if pair.config.get("parallel_drafting"):
        yield from dflash.mask_token(head)
    elif is_made_for_it:
        yield warning(
            "parallel-drafting",
            f"{head.name} is a PARD draft (pard_token), and parallel_drafting is not set",
            "vLLM runs it token by token, which costs a pass for each",
            "set parallel_drafting: true in the speculator's settings",
        )
