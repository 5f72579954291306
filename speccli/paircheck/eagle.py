"""EAGLE-1 heads."""

from __future__ import annotations

from collections.abc import Iterator

from speccli.checkpoint.inspection import Inspection
from speccli.paircheck import weights
from speccli.paircheck.fault import CONVERTED, Fault, Pair, error, warning

SURPLUS = {
    "layers.0.input_layernorm.weight": (
        "input-layernorm",
        "EAGLE-1 has no norm there and vLLM's class no place for it; a head that was trained with one is worth nothing without",
        "use a head in SafeAILab's layout",
    ),
    "lm_head.weight": (
        "lm-head",
        "vLLM's class for EAGLE-1 has no head of its own and stops at it",
        f"{CONVERTED} without it, since the target's is used",
    ),
}


def check(pair: Pair) -> Iterator[Fault]:
    head = pair.speculator
    if head is None:
        return
    yield from hidden_size(pair, head.architecture.hidden_size, head)
    yield from _bias(head)
    prefixed = [name for name in head.tensors or {} if name.startswith("model.")]
    if prefixed:
        yield error(
            "eagle-prefix",
            f"{len(prefixed)} tensors of {head.name} start with 'model.', such as {prefixed[0]}",
            "vLLM puts that prefix there itself and finds no place for a second one",
            CONVERTED,
        )
        return
    for name, (rule, cause, fix) in SURPLUS.items():
        if name in (head.tensors or {}):
            yield error(f"eagle-{rule}", f"{head.name} holds {name}", cause, fix)
    yield from weights.check(pair, head, frozenset(SURPLUS))


def hidden_size(pair: Pair, have: int | None, head: Inspection) -> Iterator[Fault]:
    """The width of the target's hidden states that a head takes, against those that it gets."""
    want = pair.target.architecture.hidden_size
    if have is not None and want is not None and have != want:
        yield error(
            "hidden-size",
            f"{head.name} takes hidden states of width {have:,}, those of {pair.target.name} are {want:,} wide",
            "it was trained for another target",
            f"use a speculator that was trained for {pair.target.name}",
        )


def _bias(head: Inspection) -> Iterator[Fault]:
    if "fc.bias" in (head.tensors or {}):
        yield warning(
            "eagle-fc-bias",
            f"{head.name} holds fc.bias",
            "vLLM's class has no place for it and drops it without a word: fewer drafts are accepted",
            f"{CONVERTED}, with the bias folded into those of the attention",
        )
