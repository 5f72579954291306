"""Vocabularies: their sizes, which vLLM compares for draft models, and their contents, which it never does."""

from __future__ import annotations

from collections.abc import Iterator

from speccli.checkpoint import tokenizer
from speccli.checkpoint.inspection import Inspection
from speccli.checkpoint.repair.vocabulary import is_padding_only
from speccli.checkpoint.tokenizer import Difference
from speccli.paircheck.fault import CONVERTED, Fault, Pair, error, info, warning

OTHER_TOKENIZER_SHARE = 0.01
"""Of the ids that both have: above it they are two tokenizers, below it two versions of one."""

SMALL_OVERLAP = 100
"""Common tokens below which vLLM warns (`v1/spec_decode/vocab_mapping.py`)."""


def check(pair: Pair) -> Iterator[Fault]:
    head = pair.speculator
    if head is None:
        return
    if pair.config.get("use_heterogeneous_vocab"):
        yield from _heterogeneous(pair, head)
        return
    if pair.method == "draft_model" and (unread := _not_looked_for(pair, head)):
        yield _unread(pair, unread, head)
        return
    if pair.method != "medusa":
        yield from _sizes(pair, head)
    yield from _contents(pair, head)


def _sizes(pair: Pair, head: Inspection) -> Iterator[Fault]:
    want, have = pair.target.architecture.vocab_size, head.architecture.vocab_size
    if want is None or have is None or want == have:
        return
    evidence = f"vocab_size is {want:,} in {pair.target.name} and {have:,} in {head.name}"
    if pair.method == "draft_model" and is_padding_only(head, pair.target):
        yield error(
            "vocab-padding",
            f"{evidence}; their tokenizers are the same",
            "the embeddings are padded to different sizes, which vLLM refuses",
            f"{CONVERTED} with the target's number of rows; or set use_heterogeneous_vocab: true",
        )
        return
    yield error(
        "vocab-size",
        evidence + _overlap(pair, head),
        "they number their tokens differently" if pair.method == "draft_model" else "it was made for another target",
        f"use a speculator of the target's own family, {want:,} ids wide, or --method ngram",
    )


def _contents(pair: Pair, head: Inspection) -> Iterator[Fault]:
    if head.tokenizer is None or pair.target.tokenizer is None:
        if pair.method == "draft_model":
            without = head if head.tokenizer is None else pair.target
            yield info(
                "tokenizer-unread",
                f"{without.name} has no tokenizer.json, vocab.json or tokenizer.model",
                "whether equal ids mean equal tokens could not be seen",
                "put the tokenizer's files beside the weights",
            )
        return
    found = tokenizer.compare(pair.target.tokenizer, head.tokenizer)
    if found.first is not None:
        yield _differs(pair, head, found, found.first)


def _not_looked_for(pair: Pair, head: Inspection) -> Inspection | None:
    """Whose tokenizer may be there all the same. The target's is read only where the draft has one."""
    if head.has_unread_tokenizer:
        return head
    return pair.target if head.tokenizer is not None and pair.target.has_unread_tokenizer else None


def _unread(pair: Pair, unread: Inspection, head: Inspection) -> Fault:
    """Two sizes may still be one vocabulary, padded differently."""
    want, have = pair.target.architecture.vocab_size, head.architecture.vocab_size
    sizes = f"; vocab_size is {want:,} and {have:,}" if want and have and want != have else ""
    make = warning if sizes else info
    return make(
        "tokenizer-unread",
        f"the tokenizer of {unread.name} was not read{sizes}",
        "whether equal ids mean equal tokens could not be seen",
        "`speccli pull` reads it, and checks the pair, before it downloads weights",
    )


def _differs(pair: Pair, head: Inspection, found: Difference, first: tuple[int, str, str]) -> Fault:
    share = found.num_differing_ids / found.num_shared_ids
    number, target, draft = first
    make = error if share > OTHER_TOKENIZER_SHARE else warning
    return make(
        "vocab-content",
        f"{found.num_differing_ids:,} of {found.num_shared_ids:,} ids mean different tokens, the first is {number}: "
        f"{target!r} for {pair.target.name}, {draft!r} for {head.name}",
        "vLLM compares sizes only: it would run, and drafts of these ids would be rejected",
        "use a draft of the same tokenizer, or set use_heterogeneous_vocab: true for a draft model",
    )


def _overlap(pair: Pair, head: Inspection) -> str:
    if head.tokenizer is None or pair.target.tokenizer is None:
        return ""
    found = tokenizer.compare(pair.target.tokenizer, head.tokenizer)
    share = found.num_common_tokens / max(len(pair.target.tokenizer.tokens), 1)
    return f"; {found.num_common_tokens:,} tokens are common, {share:.0%} of the target's"


def _heterogeneous(pair: Pair, head: Inspection) -> Iterator[Fault]:
    if pair.method != "draft_model":
        yield error(
            "heterogeneous-method",
            f"use_heterogeneous_vocab with method {pair.method}",
            "vLLM maps vocabularies for draft models only",
            "leave use_heterogeneous_vocab out",
        )
        return
    if pair.config.get("draft_sample_method", "greedy") != "greedy":
        yield error(
            "heterogeneous-sampling",
            f"use_heterogeneous_vocab with draft_sample_method {pair.config['draft_sample_method']}",
            "vLLM maps vocabularies for greedy drafts only",
            "leave draft_sample_method out",
        )
    if head.tokenizer is None or pair.target.tokenizer is None:
        return
    found = tokenizer.compare(pair.target.tokenizer, head.tokenizer)
    if found.num_common_tokens < SMALL_OVERLAP:
        yield error(
            "heterogeneous-overlap",
            f"{found.num_common_tokens} tokens are common to {pair.target.name} and {head.name}",
            "the draft may propose only common tokens",
            "use a draft of a nearer family, or --method ngram",
        )
    if found.num_differing_ids == 0 and pair.target.architecture.vocab_size == head.architecture.vocab_size:
        yield warning(
            "heterogeneous-needless",
            "use_heterogeneous_vocab, though both number their tokens alike",
            "it keeps vLLM on its older model runner and drafts greedily",
            "leave use_heterogeneous_vocab out",
        )
