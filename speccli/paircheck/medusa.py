"""Medusa heads."""

from __future__ import annotations

from collections.abc import Iterator

from speccli.checkpoint.config import positive
from speccli.checkpoint.inspection import Inspection
from speccli.checkpoint.repair import medusa
from speccli.paircheck import eagle
from speccli.paircheck.fault import CONVERTED, Fault, Pair, error, warning

DEFAULT_HIDDEN_SIZE = 4096
"""vLLM's, where a config tells none."""


def check(pair: Pair) -> Iterator[Fault]:
    head = pair.speculator
    if head is None:
        return
    if head.kind.layout == "medusa-merged":
        yield error(
            "medusa-merged",
            f"{head.name}: {head.kind.because}",
            "vLLM reads Medusa heads alone; the base that belongs to these was trained with them",
            f"{CONVERTED} of each, if {head.name} is both target and speculator",
        )
        return
    yield from _target(pair)
    yield from _heads(pair, head)
    yield from _biases(head)
    yield from _widths(pair, head)
    yield from _vocabulary(pair, head)


def _names(head: Inspection) -> set[str]:
    return {name for name in map(medusa.vllm_name, head.tensors or {}) if name is not None}


def _target(pair: Pair) -> Iterator[Fault]:
    if pair.target.architecture.is_composite:
        yield error(
            "medusa-composite-target",
            f"{pair.target.name} nests its language model in config.json and has no vocab_size on top",
            "vLLM looks for vocab_size there when it aligns Medusa heads",
            "--method draft_model, eagle3 or ngram",
        )


def _heads(pair: Pair, head: Inspection) -> Iterator[Fault]:
    count, _, _ = medusa.counts(_names(head))
    if head.config.get("original_lm_head"):
        count = max((int(name.split(".")[1]) + 1 for name in _names(head) if name.startswith("blocks.")), default=0)
    if pair.num_speculative_tokens > count:
        yield error(
            "medusa-heads",
            f"k is {pair.num_speculative_tokens}, and {head.name} holds {count} heads",
            "each head drafts one token; vLLM notices only while it loads, and names blocks, not heads",
            f"-k {count}" if count else "use another checkpoint",
        )


def _biases(head: Inspection) -> Iterator[Fault]:
    count = sum(name.startswith("blocks.") and name.endswith(".bias") for name in _names(head))
    is_told = bool(head.config.get("medusa_fc_bias"))
    if count and not is_told:
        yield warning(
            "medusa-bias",
            f"{head.name} holds {count} biases, and medusa_fc_bias is not set in its config.json",
            "vLLM drops them without a word: fewer drafts are accepted",
            f"{CONVERTED}; or set medusa_fc_bias: true in its config.json",
        )
    if is_told and not count:
        yield error(
            "medusa-bias-missing",
            f"medusa_fc_bias is set in the config.json of {head.name}, which holds no biases",
            "vLLM stops at biases that the file does not have",
            "take medusa_fc_bias out of its config.json",
        )


def _widths(pair: Pair, head: Inspection) -> Iterator[Fault]:
    shapes = {name: tensor.shape for name, tensor in (head.tensors or {}).items() if len(tensor.shape) == 2}
    widths = {shape[1] for shape in shapes.values()}
    told = positive(head.config, "hidden_size") or DEFAULT_HIDDEN_SIZE
    if len(widths) != 1:
        return
    (width,) = widths
    yield from eagle.hidden_size(pair, width, head)
    if told != width:
        has = "hidden_size" in head.config
        yield error(
            "medusa-hidden-size",
            f"the tensors of {head.name} are {width:,} wide; hidden_size is {told:,}{'' if has else ', the default'}",
            "vLLM goes by the config and stops at the first tensor",
            f"{CONVERTED}; or set hidden_size: {width} in its config.json",
        )


def _vocabulary(pair: Pair, head: Inspection) -> Iterator[Fault]:
    want = pair.target.architecture.vocab_size
    rows = {
        t.shape[0]
        for n, t in (head.tensors or {}).items()
        if t.shape and (medusa.vllm_name(n) or "").startswith("lm_head")
    }
    truncated = positive(head.config, "truncated_vocab_size")
    has_map = "token_map" in (head.tensors or {})
    if truncated is not None and want is not None and truncated < want:
        if not has_map or not head.config.get("original_lm_head"):
            yield error(
                "medusa-token-map",
                f"truncated_vocab_size is {truncated:,} of {want:,}; token_map is "
                f"{'there' if has_map else 'missing'}, original_lm_head {head.config.get('original_lm_head', False)}",
                "vLLM 0.32 takes smaller heads only with a token_map and one head for all, and stops without a reason",
                "use heads of the target's full vocabulary",
            )
    elif want is not None and rows and rows != {want}:
        yield error(
            "vocab-size",
            f"the heads of {head.name} have {', '.join(f'{n:,}' for n in sorted(rows))} rows, vocab_size of "
            f"{pair.target.name} is {want:,}",
            "they were made for another target",
            f"use heads that were trained for {pair.target.name}",
        )
