"""EAGLE-3 and P-EAGLE heads."""

from __future__ import annotations

from collections.abc import Iterator

from speccli.checkpoint import heads
from speccli.checkpoint.config import table
from speccli.checkpoint.inspection import Inspection
from speccli.paircheck import eagle, weights
from speccli.paircheck.fault import CONVERTED, Fault, Pair, error, warning

TOLD = frozenset({"fc.weight", "lm_head.weight", "d2t"})


def check(pair: Pair) -> Iterator[Fault]:
    head = pair.speculator
    if head is None:
        return
    yield from eagle.hidden_size(pair, heads.target_hidden_size(head), head)
    yield from weights.check(pair, head, TOLD)
    yield from _layers(pair, head)
    yield from _parallel_drafting(pair, head)
    if head.tensors is not None:
        yield from _vocabulary(head)
        yield from _fc(head)
        yield from embedding(pair, head)


def embedding(pair: Pair, head: Inspection) -> Iterator[Fault]:
    """vLLM shares the target's embedding with a head that has none, where the widths agree."""
    have, want = head.architecture.hidden_size, pair.target.architecture.hidden_size
    if have and want and have != want and "embed_tokens.weight" not in (head.tensors or {}):
        yield error(
            "embedding",
            f"{head.name} is {have:,} wide and has no embed_tokens, the target is {want:,} wide",
            "vLLM cannot share an embedding of another width, and leaves the head's as memory happened to be",
            "use a head that brings its embedding",
        )


def _vocabulary(head: Inspection) -> Iterator[Fault]:
    draft_vocab, vocab = heads.draft_vocab_size(head), head.architecture.vocab_size
    offsets, rows = head.shape("d2t"), head.shape("lm_head.weight")
    is_reduced = draft_vocab is not None and vocab is not None and draft_vocab != vocab
    if is_reduced and offsets is None:
        yield error(
            "eagle3-no-d2t",
            f"{head.name} has {draft_vocab:,} of {vocab:,} ids, and no d2t to tell which",
            "vLLM starts without a word and takes its ids for the target's: nearly all drafts are rejected",
            "fetch the file that carries d2t, or use another head",
        )
    if offsets is not None and draft_vocab is not None and offsets != (draft_vocab,):
        yield _rows("d2t", "d2t", offsets, draft_vocab, head)
    if rows is None:
        yield _no_head(head, is_reduced)
    elif draft_vocab is not None and rows[:1] != (draft_vocab,):
        yield _rows("lm-head-rows", "lm_head.weight", rows, draft_vocab, head)


def _rows(rule: str, tensor: str, have: tuple[int, ...], want: int, head: Inspection) -> Fault:
    return error(
        f"eagle3-{rule}",
        f"{tensor} of {head.name} is {list(have)}, draft_vocab_size is {want:,}",
        "config.json and tensors do not belong together",
        "correct draft_vocab_size in its config.json, or fetch the checkpoint again",
    )


def _no_head(head: Inspection, is_reduced: bool) -> Fault:
    make = error if is_reduced else warning
    return make(
        "eagle3-no-lm-head",
        f"{head.name} holds no lm_head.weight",
        "vLLM uses the target's head without a word"
        + (", which is of another size than its ids" if is_reduced else "; that is right only if it was trained so"),
        "fetch the file that carries lm_head, or use another head",
    )


def _fc(head: Inspection) -> Iterator[Fault]:
    expected = heads.expected(head, "eagle3")
    want, have = expected.required.get("fc.weight") if expected else None, head.shape("fc.weight")
    if want is None or want == have:
        return
    if have is None:
        yield error(
            "eagle3-no-fc",
            f"{head.name} holds no fc.weight",
            "vLLM starts without a word and mixes the hidden states by what memory happened to be",
            weights.REFETCH,
        )
    else:
        yield error(
            "eagle3-fc-width",
            f"fc.weight of {head.name} is {list(have)}; for {heads.num_aux_layers(head)} hidden states vLLM makes "
            f"{list(want)}",
            "vLLM counts num_aux_hidden_states, else eagle_config's layer ids, else 3",
            f"{CONVERTED}; or set num_aux_hidden_states and target_hidden_size in its config.json",
        )


def _layers(pair: Pair, head: Inspection) -> Iterator[Fault]:
    layers, told = pair.target.architecture.num_hidden_layers, heads.aux_layer_ids(head)
    if layers is None or table(head.model, "eagle_config").get("use_aux_hidden_state") is False:
        return
    ids = told or [2, layers // 2, layers - 3]
    usable = {i for i in ids if 0 <= i <= layers}
    if len(usable) != heads.num_aux_layers(head):
        yield error(
            "eagle3-layers",
            f"hidden states of layers {ids} of {layers}{'' if told else ', which is the default'}: "
            f"{len(usable)} different ones, and the head takes {heads.num_aux_layers(head)}",
            "vLLM drops doubles and layers that are not there, and dies at the first request",
            "set eagle_aux_hidden_state_layer_ids in the head's config.json to those that it was trained on",
        )


def _parallel_drafting(pair: Pair, head: Inspection) -> Iterator[Fault]:
    is_made_for_it = "mask_hidden" in (head.tensors or {}) or str(head.architecture.name).lower().startswith("peagle")
    if bool(pair.config.get("parallel_drafting")) == is_made_for_it or head.tensors is None:
        return
    if is_made_for_it:
        yield warning(
            "parallel-drafting",
            f"{head.name} is a P-EAGLE head, and parallel_drafting is not set",
            "vLLM runs it token by token, as it was not trained to be",
            "set parallel_drafting: true in the speculator's settings",
        )
    else:
        yield error(
            "parallel-drafting",
            f"parallel_drafting, but {head.name} holds no mask_hidden",
            "only P-EAGLE heads draft all tokens at once",
            "leave parallel_drafting out, or use a P-EAGLE head",
        )
