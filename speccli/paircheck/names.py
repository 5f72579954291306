"""What the speculator is, against what it is used as: its kind, its class in vLLM, its path."""

from __future__ import annotations

from collections.abc import Iterator

from speccli.checkpoint import speculators
from speccli.checkpoint.config import table, word
from speccli.checkpoint.inspection import Inspection
from speccli.checkpoint.repair.place import TRAPS, misread_as
from speccli.paircheck.fault import CONVERTED, Fault, Pair, error
from speccli.paircheck.supported import SPECULATORS

NEED_SPECULATOR = ("draft_model", "eagle", "eagle3", "medusa", "dflash")

AS_THEY_ARE = ("medusa", "dspark")
"""Methods whose architectures vLLM looks up as the config has them."""


def contradictions(pair: Pair) -> Iterator[Fault]:
    """Faults beside which all others would be noise."""
    head, method = pair.speculator, pair.method
    if method == "mlp_speculator" or (head is not None and head.kind.method == "mlp_speculator"):
        yield _mlp_refused(pair)
    elif head is None:
        if method in NEED_SPECULATOR:
            yield error(
                "speculator-missing",
                f"method {method}, and no speculator",
                f"{method} drafts with weights of its own",
                "name its checkpoint with --speculator, or choose --method ngram",
            )
    elif head.kind.layout == "speculators" and not _is_known_speculators(head):
        yield _unknown_speculators(head)
    elif head.kind.method != method and not (method == "mtp" and head.architecture.num_mtp_layers):
        yield _another_kind(pair, head)


def check(pair: Pair) -> Iterator[Fault]:
    if pair.speculator is not None:
        yield from _architecture(pair, pair.speculator)
    yield from _path(pair)


def vllm_architecture(head: Inspection, method: str) -> str:
    """The class name that vLLM looks up (`transformers_utils/configs/eagle.py`)."""
    name = head.architecture.name or ""
    if head.kind.layout == "speculators" or method in AS_THEY_ARE or head.config.get("model_type") == "eagle":
        return name or ("MedusaModel" if method == "medusa" else "")
    prefix = {"eagle": "Eagle", "eagle3": "Eagle3", "dflash": "DFlash"}[method]
    is_complete = name.startswith(prefix) or (method != "eagle" and name.endswith(prefix))
    return name if is_complete or name == "LiLiCorrDraftModel" else f"{prefix}{name}"


def _mlp_refused(pair: Pair) -> Fault:
    name = pair.speculator.name if pair.speculator else pair.method
    return error(
        "mlp-speculator",
        f"{name} is an MLP speculator",
        "vLLM 0.32 has switched its class off, and none of its model runners knows the method",
        "choose another method for this target: eagle3, draft_model or ngram",
    )


def _is_known_speculators(head: Inspection) -> bool:
    kind = word(head.config, "speculators_model_type")
    return kind in speculators.METHODS and " over " not in str(head.architecture.name)


def _unknown_speculators(head: Inspection) -> Fault:
    layer = table(head.config, "transformer_layer_config").get("model_type")
    return error(
        "speculators-type",
        f"{head.name}: speculators_model_type is {head.config.get('speculators_model_type')}, its layer {layer}",
        f"of this format vLLM 0.32 takes {', '.join(speculators.METHODS)}, with layers of llama or qwen3",
        "use a speculator of one of these types",
    )


def _another_kind(pair: Pair, head: Inspection) -> Fault:
    kind = head.kind
    return error(
        "method-mismatch",
        f"method {pair.method}, but {head.name} is made for {kind.method}: {kind.because}",
        "vLLM would stop while it loads the tensors, or run them as what they are not",
        f"--method {kind.method}, or a speculator made for {pair.method}",
    )


def _architecture(pair: Pair, head: Inspection) -> Iterator[Fault]:
    known = SPECULATORS.get(pair.method)
    if known is None or pair.method == "mtp" or head.kind.layout == "medusa-merged" or _is_deepseek_dspark(pair):
        return
    name = vllm_architecture(head, pair.method)
    if name not in known:
        yield error(
            "architecture",
            f"{head.name} is {head.architecture.name or 'of no named architecture'}; vLLM would look for {name!r}",
            f"vLLM 0.32 has no such class for {pair.method}: it has {', '.join(sorted(known))}",
            "use a speculator of one of these architectures, or --method draft_model or ngram",
        )


def _is_deepseek_dspark(pair: Pair) -> bool:
    return pair.method == "dspark" and str(pair.target.architecture.model_type).startswith("deepseek_v4")


def _path(pair: Pair) -> Iterator[Fault]:
    checkpoint = pair.speculator or (pair.target if pair.method == "mtp" else None)
    folder = checkpoint.folder if checkpoint else None
    taken = misread_as(folder, pair.method) if folder else None
    if taken is not None:
        trap = next(trap for trap in TRAPS if trap in str(folder).lower())
        yield error(
            "path",
            f"{folder} holds {trap!r}, and the method is {pair.method}",
            f"vLLM overrules the method by the path and would run it as {taken}",
            f"{CONVERTED} by another path; or rename the folder",
        )
