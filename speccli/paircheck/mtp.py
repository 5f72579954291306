"""Multi-token prediction: layers that a target brings along, or that its re-packers left out."""

from __future__ import annotations

from collections.abc import Iterator

from speccli.checkpoint.inspection import Inspection
from speccli.paircheck.fault import Fault, Pair, error, info
from speccli.paircheck.supported import MTP_ARCHITECTURES, MTP_MODEL_TYPES

ASSISTANTS = ("gemma4_assistant", "gemma4_unified_assistant")


def check(pair: Pair) -> Iterator[Fault]:
    holder = pair.speculator or pair.target
    model_type = holder.architecture.model_type or ""
    if model_type in ASSISTANTS:
        yield from _k(pair, 1)
        return
    count = holder.architecture.num_mtp_layers
    if not _is_known(holder) and not model_type.endswith("_mtp"):
        yield _unknown(holder, count)
    elif count == 0:
        yield error(
            "mtp-none",
            f"the config.json of {holder.name} tells no MTP layer (num_nextn_predict_layers, mtp_num_hidden_layers)",
            "this model has none, or its copy was made without",
            "use the original repository, or --method ngram",
        )
    else:
        yield from _weights(holder, count)
        yield from _k(pair, count)


def _is_known(holder: Inspection) -> bool:
    a = holder.architecture
    model_type = a.model_type or ""
    return model_type in MTP_MODEL_TYPES or "exaone4_5" in model_type or a.name in MTP_ARCHITECTURES


def _unknown(holder: Inspection, count: int) -> Fault:
    layers = f"{count} MTP layers" if count else "no MTP layer"
    return error(
        "mtp-unsupported",
        f"{holder.name} is {holder.architecture.name} ({holder.architecture.model_type}), with {layers} by its config",
        "vLLM 0.32 makes no MTP speculator of this family, and then says that the method 'mtp' is unknown",
        "--method draft_model, eagle3 or ngram",
    )


def _weights(holder: Inspection, count: int) -> Iterator[Fault]:
    if holder.tensors is not None and not holder.mtp_tensors():
        yield error(
            "mtp-weights",
            f"the config.json of {holder.name} tells {count} MTP layers, and none of its {len(holder.tensors):,} "
            "tensors belongs to one",
            "quantised and re-packed copies often leave them out; some of vLLM's classes then draft from nothing",
            "use the original repository, or name it as --speculator for the MTP layers",
        )


def _k(pair: Pair, count: int) -> Iterator[Fault]:
    k = pair.num_speculative_tokens
    if k > count and k % count:
        yield error(
            "mtp-k",
            f"k is {k}, and there are {count} MTP layers",
            "vLLM wants a multiple",
            f"-k {count}, or {k - k % count}",
        )
    elif k > count:
        yield info(
            "mtp-reused",
            f"k is {k}, and there {'is 1 MTP layer' if count == 1 else f'are {count} MTP layers'}",
            "vLLM runs them several times; they were trained for the first, so later tokens are accepted less often",
            f"-k {count}, unless a run shows that more pays",
        )
