"""Sizes and places: hidden states, context, tensor parallelism, quantisation, cost, and whom a head was trained for."""

from __future__ import annotations

from collections.abc import Iterator

from speccli.checkpoint import speculators
from speccli.checkpoint.config import Config, positive, words
from speccli.checkpoint.inspection import Architecture, Inspection
from speccli.paircheck.fault import Fault, Pair, error, info, warning
from speccli.paircheck.supported import WITH_HIDDEN_STATES, WITHOUT_HIDDEN_STATES

USE_HIDDEN_STATES = ("eagle3", "dflash", "dspark")

STORED_QUANTIZATION = ("awq", "awq_marlin", "gptq", "gptq_marlin", "compressed-tensors", "modelopt", "modelopt_fp4")
"""Methods whose weights must lie quantised on the disk."""

MAX_DRAFT_SHARE = 0.25


def check(pair: Pair) -> Iterator[Fault]:
    yield from _hidden_states(pair)
    yield from _draft_tensor_parallel_size(pair)
    if pair.speculator is not None:
        yield from _attention_heads(pair, pair.speculator)
        yield from _context(pair, pair.speculator)
        yield from _quantization(pair, pair.speculator)
        yield from _cost(pair, pair.speculator)
        yield from _verifier(pair, pair.speculator)


def active_parameters(a: Architecture, model: Config) -> int | None:
    """Parameters that take part in one token, by the shape of a plain decoder; None where that is not told."""
    inner = positive(model, "moe_intermediate_size") or a.intermediate_size
    experts = positive(model, "num_experts_per_tok") or positive(model, "moe_k") or 1
    if not (a.hidden_size and a.num_hidden_layers and a.num_attention_heads and a.num_key_value_heads and a.head_dim):
        return None
    if not (inner and a.vocab_size):
        return None
    attention = a.hidden_size * a.head_dim * 2 * (a.num_attention_heads + a.num_key_value_heads)
    head = a.hidden_size * a.vocab_size
    return a.num_hidden_layers * (attention + 3 * a.hidden_size * inner * experts) + head


def _hidden_states(pair: Pair) -> Iterator[Fault]:
    name = pair.target.architecture.name
    if pair.method not in USE_HIDDEN_STATES or name in WITH_HIDDEN_STATES:
        return
    if name in WITHOUT_HIDDEN_STATES:
        yield error(
            "target-hidden-states",
            f"{pair.target.name} is {name}; its class in vLLM 0.32 lacks the interface SupportsEagle3",
            f"{pair.method} needs the target's hidden states, and vLLM tells so only after it has loaded the weights",
            "--method draft_model or ngram",
        )
    else:
        yield info(
            "target-unknown",
            f"{pair.target.name} is {name}, for which vLLM 0.32 has no class of its own",
            f"whether it hands its hidden states to {pair.method} shows when it is loaded",
            "should it fail, --method draft_model or ngram",
        )


def _draft_tensor_parallel_size(pair: Pair) -> Iterator[Fault]:
    asked = pair.config.get("draft_tensor_parallel_size")
    if asked is None or asked == pair.tensor_parallel_size:
        return
    evidence = f"draft_tensor_parallel_size {asked}, tensor_parallel_size {pair.tensor_parallel_size}"
    if asked != 1:
        yield error("draft-tp", evidence, "vLLM takes 1 or the target's", "leave draft_tensor_parallel_size out")
    elif pair.method == "draft_model" and pair.runner == "V1":
        yield error(
            "draft-tp",
            evidence,
            "on this model runner the ranks of a draft model would overwrite each other's compiled code; vLLM refuses",
            "leave draft_tensor_parallel_size out",
        )
    else:
        yield warning(
            "draft-tp",
            evidence,
            "vLLM accepts it, and splits the speculator like its target all the same",
            "leave draft_tensor_parallel_size out",
        )


def _attention_heads(pair: Pair, head: Inspection) -> Iterator[Fault]:
    size = pair.tensor_parallel_size
    heads, kv_heads = head.architecture.num_attention_heads, head.architecture.num_key_value_heads
    if heads and heads % size:
        evidence = f"{head.name} has {heads} attention heads"
    elif kv_heads and max(size, kv_heads) % min(size, kv_heads):
        evidence = f"{head.name} has {kv_heads} key-value heads"
    else:
        return
    yield error(
        "draft-heads",
        f"{evidence}, for {size} devices",
        "vLLM splits a speculator like its target",
        "fewer devices, or another speculator",
    )


def _context(pair: Pair, head: Inspection) -> Iterator[Fault]:
    """Where the draft's positions end, V1 hands out zeros for drafts. V2 drafts on, with a longer table only for EAGLE."""
    positions, length = head.architecture.max_position_embeddings, pair.context_length
    if positions is None or length is None or positions >= length or pair.method in ("medusa", "mtp"):
        return
    evidence = f"{head.name} has {positions:,} positions, the context is {length:,}"
    if pair.runner == "V1":
        yield warning(
            "draft-context",
            evidence,
            f"the V1 model runner, which runs here, drafts nothing beyond {positions:,} tokens and has zeros verified "
            "instead: slower than plain decoding",
            f"--max-model-len {positions}, or --no-spec for longer prompts",
        )
    elif pair.method in ("eagle", "eagle3"):
        yield info(
            "draft-context",
            evidence,
            "vLLM stretches its positions to the context, and few drafts are accepted beyond what it was trained on",
            f"--max-model-len {positions} where prompts allow it",
        )
    else:
        yield error(
            "draft-context",
            evidence,
            "the V2 model runner, which runs here, does not look at it and reads beyond the position table",
            f"--max-model-len {positions}, or a speculator with more positions",
        )


def _quantization(pair: Pair, head: Inspection) -> Iterator[Fault]:
    asked, stored = pair.config.get("quantization"), head.architecture.quantization
    if asked in STORED_QUANTIZATION and stored is None:
        yield error(
            "draft-quantization",
            f"quantization {asked} for {head.name}, whose weights are {', '.join(sorted(head.bytes_by_dtype))}",
            f"{asked} reads weights that lie quantised on the disk",
            "leave `quantization` out of the speculator's settings",
        )
    elif stored is not None:
        yield info(
            "draft-quantized",
            f"{head.name} is quantised: {stored}",
            "vLLM takes the speculator's own quantisation, never the target's, and the device needs a kernel for it",
            "nothing, unless vLLM finds no kernel: then a speculator in bfloat16",
        )
    elif pair.target.architecture.quantization is not None and pair.method != "mtp":
        yield info(
            "draft-unquantized",
            f"{pair.target.name} is quantised ({pair.target.architecture.quantization}), {head.name} is not",
            f"the speculator keeps its {head.weight_bytes / 1e9:,.2f} GB",
            "nothing: count its full size",
        )


def _cost(pair: Pair, head: Inspection) -> Iterator[Fault]:
    if pair.method != "draft_model":
        return
    draft = active_parameters(head.architecture, head.model)
    target = active_parameters(pair.target.architecture, pair.target.model)
    if draft is None or target is None or draft <= MAX_DRAFT_SHARE * target:
        return
    yield warning(
        "draft-size",
        f"{draft / 1e6:,.1f} M parameters draft for {target / 1e6:,.1f} M, {draft / target:.0%}",
        "each draft token then costs so much that even good drafts save nothing",
        "use a draft 10 to 50 times smaller, or --method ngram",
    )


def _verifier(pair: Pair, head: Inspection) -> Iterator[Fault]:
    told = speculators.verifier(head.config) if head.kind.layout == "speculators" else {}
    architectures = words(told, "architectures")
    if architectures and pair.target.architecture.name not in architectures:
        yield warning(
            "verifier",
            f"{head.name} was trained for {told.get('name_or_path')} ({architectures[0]}); "
            f"{pair.target.name} is {pair.target.architecture.name}",
            "the hidden states of another model mean something else: few drafts would be accepted",
            f"--target {told.get('name_or_path')}, or a speculator for {pair.target.name}",
        )
    elif _is_another_name(told.get("name_or_path"), pair.target):
        yield info(
            "verifier-name",
            f"{head.name} was trained for {told.get('name_or_path')}",
            f"it fits if {pair.target.name} is the same model, or a quantised copy of it",
            f"else --target {told.get('name_or_path')}",
        )


def _is_another_name(verifier: object, target: Inspection) -> bool:
    if not isinstance(verifier, str):
        return False
    known, here = (name.rstrip("/").rpartition("/")[2].lower() for name in (verifier, target.name))
    return known not in here and here not in known
