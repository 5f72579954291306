"""What to do about a pair that does not go together."""

from __future__ import annotations

from speccli.diagnose.failures.context import Context
from speccli.diagnose.failures.figures import whole
from speccli.diagnose.failures.kind import Advice, Figures

PADDING_TOKENS = 1024
"""Sizes of one tokenizer's embedding that differ by less are the same vocabulary, padded differently."""

HEAD_TENSORS = {
    "d2t": "eagle3",
    "t2d": "eagle3",
    "midlayer": "eagle3",
    "hidden_norm": "eagle3",
    "fc": "eagle or eagle3",
    "embed_tokens": "eagle or eagle3",
    "layers": "eagle",
    "medusa_heads": "medusa",
    "mask_embedding": "dflash",
    "0": "medusa",
}
"""What a tensor's name tells of the file that it is in."""


def vocabularies(figures: Figures, _context: Context) -> Advice:
    target, draft = whole(figures, "target_vocabulary"), whole(figures, "draft_vocabulary")
    if not target or not draft:
        return Advice()
    if 0 < abs(target - draft) <= PADDING_TOKENS:
        return Advice(
            cause=f"{target} against {draft} entries: probably one tokenizer, whose embedding was padded to different sizes",
            fix="use_heterogeneous_vocab: true in the speculative configuration (with the older runner, greedy drafts), "
            "or a draft with the target's size, or an EAGLE-3 head; do not edit vocab_size in a config",
            settings={"use_heterogeneous_vocab": True},
        )
    return Advice(
        cause=f"{target} against {draft} entries: other tokenizers, in which a number stands for other text",
        fix="a draft of the target's own family, an EAGLE-3 head of this target, or --method ngram",
    )


def head_as_model(figures: Figures, context: Context) -> Advice:
    name = str(figures.get("tensor_name", "")).split(".")[0]
    method = HEAD_TENSORS.get(name)
    if method is None:
        return Advice()
    used = f", and was loaded as {context.method}" if context.method else ""
    return Advice(
        cause=f"the file has a tensor {name!r}: it is a head for {method}{used}",
        fix=f"--method {method.replace(' or ', ' or --method ')} with this speculator",
        settings={} if " or " in method else {"method": method},
    )


def shapes(figures: Figures, context: Context) -> Advice:
    file, model = figures.get("file_shape_text"), figures.get("model_shape_text")
    if not file or not model:
        return Advice()
    cause = f"a tensor of shape [{file}] was to be loaded where the model has [{model}]"
    if context.method == "medusa" or str(model).split(", ")[:2] == ["4096", "4096"]:
        return Advice(
            cause=f"{cause}: Medusa's hidden size is 4096 where its config does not say another",
            fix='heads made for this target; if they are, add "hidden_size" of the target to the heads\' config.json',
        )
    return Advice(
        cause=f"{cause}: the checkpoint belongs to a model of another size, or its config does not match its weights"
    )


def widths(figures: Figures, _context: Context) -> Advice:
    left, right = figures.get("left_text"), figures.get("right_text")
    if not left or not right:
        return Advice()
    return Advice(cause=f"{left} meets {right}: the speculator was made for a target of another hidden size")


def draft_map(figures: Figures, _context: Context) -> Advice:
    rows, wanted = whole(figures, "file_rows"), whole(figures, "model_rows")
    if not rows or not wanted:
        return Advice()
    return Advice(
        cause=f"the head's lm_head has {rows} rows, and {wanted} were expected: it drafts from a reduced vocabulary",
        fix=f'"draft_vocab_size": {rows} in the head\'s config.json, and the map d2t in its file; a head in whole has both',
        settings={"draft_vocab_size": rows},
    )
