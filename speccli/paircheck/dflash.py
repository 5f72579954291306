"""DFlash and DSpark heads: a block of tokens at once."""

from __future__ import annotations

from collections.abc import Iterator

from speccli.checkpoint import heads
from speccli.checkpoint.config import integer, positive, table
from speccli.checkpoint.inspection import Inspection
from speccli.paircheck import eagle, eagle3, weights
from speccli.paircheck.fault import Fault, Pair, error, warning

MASK_KEYS = ("mask_token_id", "dspark_noise_token_id", "pard_token", "ptd_token_id")


def check(pair: Pair) -> Iterator[Fault]:
    yield from _runner(pair)
    head = pair.speculator
    if head is None:
        return
    yield from eagle.hidden_size(pair, heads.target_hidden_size(head), head)
    yield from _block(pair, head)
    yield from mask_token(head)
    yield from _layers(pair, head)
    if pair.method == "dflash":
        yield from weights.check(pair, head)
        yield from _no_map(head)
    if head.tensors is not None:
        yield from eagle3.embedding(pair, head)


def mask_token(head: Inspection) -> Iterator[Fault]:
    """The id that stands for what is yet to be drafted."""
    places = (table(head.model, "dflash_config"), head.model)
    found = [mask for part in places for key in MASK_KEYS if (mask := integer(part, key)) is not None]
    vocab = head.architecture.vocab_size
    if not found:
        yield error(
            "mask-token",
            f"the config.json of {head.name} has no mask_token_id",
            "without it vLLM cannot draft several tokens at once",
            "fetch the checkpoint again, or use another one",
        )
    elif vocab is not None and not 0 <= found[0] < vocab:
        yield error(
            "mask-token",
            f"mask_token_id of {head.name} is {found[0]:,}, its vocab_size {vocab:,}",
            "vLLM would look it up beyond the embedding",
            "correct mask_token_id in its config.json",
        )


def block_tokens(head: Inspection, method: str) -> int | None:
    """How many tokens of a block are drafts: all but the anchor, unless that is sampled from as well."""
    size = positive(head.model, "block_size") or positive(head.model, "dspark_block_size")
    if size is None:
        return None
    told = table(head.model, "dflash_config").get("sample_from_anchor", head.model.get("sample_from_anchor"))
    from_anchor = told if isinstance(told, bool) else method == "dspark"
    return size if from_anchor else size - 1


def _block(pair: Pair, head: Inspection) -> Iterator[Fault]:
    most, k = block_tokens(head, pair.method), pair.num_speculative_tokens
    if most is not None and k > most:
        yield warning(
            f"{pair.method}-block",
            f"k is {k}, and {head.name} was trained on blocks of {most} draft tokens",
            "vLLM does not compare them; what lies beyond the block is guesswork and costs time",
            f"-k {most}",
        )


def _layers(pair: Pair, head: Inspection) -> Iterator[Fault]:
    ids, layers = heads.aux_layer_ids(head), pair.target.architecture.num_hidden_layers
    if ids is None:
        yield error(
            f"{pair.method}-layers",
            f"the config.json of {head.name} has no target_layer_ids",
            "vLLM then takes three layers of the target, whatever the head was trained on",
            "fetch the checkpoint again, or use another one",
        )
        return
    usable = {i for i in ids if layers is None or 0 <= i <= layers}
    if len(usable) != len(ids):
        yield error(
            f"{pair.method}-layers",
            f"target_layer_ids of {head.name} are {[i - 1 for i in ids]}, and {pair.target.name} has {layers} layers",
            "vLLM drops doubles and layers that are not there; the head was made for another target",
            f"use a head that was trained for {pair.target.name}",
        )


def _no_map(head: Inspection) -> Iterator[Fault]:
    draft_vocab, vocab = heads.draft_vocab_size(head), head.architecture.vocab_size
    if head.tensors is not None and draft_vocab != vocab and "d2t" not in head.tensors:
        yield error(
            "dflash-no-d2t",
            f"{head.name} has {draft_vocab:,} of {vocab:,} ids, and no d2t to tell which",
            "vLLM starts without a word and takes its ids for the target's: nearly all drafts are rejected",
            "fetch the file that carries d2t, or use another head",
        )


def _runner(pair: Pair) -> Iterator[Fault]:
    if pair.runner == "V2":
        return
    types = set(pair.speculator.architecture.layer_types) if pair.speculator else set()
    if pair.method == "dspark":
        needs = "dspark"
    elif pair.method == "dflash" and len(types) > 1:
        needs = f"a DFlash head with {' and '.join(sorted(types))}"
    else:
        return
    yield error(
        "needs-v2-runner",
        f"{needs}, on the V1 model runner",
        "only the V2 model runner, which needs a GPU, can run it",
        "a GPU, or --method ngram, eagle3 or draft_model",
    )
