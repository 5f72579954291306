"""What to do about arguments: the ones that were meant, for those that were typed."""

from __future__ import annotations

from speccli.diagnose.failures.context import Context
from speccli.diagnose.failures.figures import number, rounded_down, whole
from speccli.diagnose.failures.kind import Advice, Figures

OLD_ARGUMENTS = {
    "speculative-model-quantization": '"quantization" in the speculative configuration',
    "speculative-draft-tensor-parallel-size": "nothing: the draft takes the target's",
    "speculative-max-model-len": "nothing: it no longer limits speculation",
    "speculative-disable-by-batch-size": "num_speculative_tokens_per_batch_size in the speculative configuration",
    "speculative-disable-mqa-scorer": "nothing: it is gone",
    "speculative-model": "--spec-model NAME (speccli: --speculator NAME)",
    "num-speculative-tokens": "--spec-tokens N (speccli: -k N)",
    "ngram-prompt-lookup-max": '"prompt_lookup_max" in the speculative configuration',
    "ngram-prompt-lookup-min": '"prompt_lookup_min" in the speculative configuration',
    "disable-by-batch-size": "num_speculative_tokens_per_batch_size in the speculative configuration",
    "use-v2-block-manager": "nothing: it is gone",
    "typical-acceptance-sampler": "nothing: it is gone",
    "spec-decoding-acceptance-method": "nothing: it is gone",
}
"""Arguments of vLLM before 0.9, and what took their place; of two that begin alike the longer first."""

OLD_WORDS = (*OLD_ARGUMENTS, *(name.replace("-", "_") for name in OLD_ARGUMENTS))


def old_arguments(figures: Figures, _context: Context) -> Advice:
    told = str(figures.get("arguments_text", "")).replace("_", "-")
    found = [name for name in OLD_ARGUMENTS if f"--{name}" in told or told.strip("'\"") == name]
    if not found:
        return Advice()
    return Advice(
        cause=f"{', '.join(f'--{name}' for name in found)}: arguments of vLLM before 0.9, and gone since",
        fix="; ".join(f"--{name} → {OLD_ARGUMENTS[name]}" for name in found),
    )


def not_json(figures: Figures, _context: Context) -> Advice:
    value = str(figures.get("value_text", "")).strip()
    if not value:
        return Advice()
    if value.startswith(("'", '"')) and value.endswith(("'", '"')):
        how, repaired = "the outer quotes arrived as part of the value", value[1:-1]
    elif "\\" in value:
        how, repaired = "the backslashes arrived as part of the value", value.replace("\\", "")
    elif "'" in value:
        how, repaired = "it has single quotes, as Python writes it", value.replace("'", '"')
    elif value.startswith("{"):
        how, repaired = "the shell took the inner quotes away", ""
    else:
        how, repaired = "it is a bare word", ""
    return Advice(
        cause=f"{value} is no JSON: {how}",
        fix="use --spec-method, --spec-model and --spec-tokens, which take no JSON (speccli: --method, --speculator, -k)"
        + (f"; or, in single quotes, '{repaired}'" if repaired else ""),
    )


def longer_than_the_model(figures: Figures, _context: Context) -> Advice:
    limit = whole(figures, "limit_tokens")
    if not limit:
        return Advice()
    return Advice(
        cause=f"{figures.get('asked_tokens', 'more')} tokens of context asked for, and the checkpoint is made for {limit}",
        fix=f"--max-model-len {limit}",
        settings={"max_model_len": limit},
    )


def token_budget(figures: Figures, context: Context) -> Advice:
    k = context.num_speculative_tokens or whole(figures, "k")
    sequences = whole(figures, "sequences") or context.max_num_seqs
    if not k or not sequences:
        return Advice()
    budget = sequences * (k + 1)
    return Advice(
        cause=f"each of {sequences} sequences takes k + 1 = {k + 1} slots of a step: {budget} in all",
        fix=f"max_num_batched_tokens {budget} or more (engine: in a profile), or a smaller --max-num-seqs, or a smaller -k",
        settings={"max_num_batched_tokens": budget},
    )


def lookup_window(figures: Figures, _context: Context) -> Advice:
    low, high = whole(figures, "lookup_min"), whole(figures, "lookup_max")
    if low is None or high is None:
        return Advice()
    return Advice(
        cause=f"prompt_lookup_min {low} is above prompt_lookup_max {high}",
        fix=f"prompt_lookup_min {high}, or prompt_lookup_max {low}",
    )


def divisible(figures: Figures, _context: Context) -> Advice:
    unit = whole(figures, "n_predict")
    asked = whole(figures, "k")
    if not unit:
        return Advice()
    k = max(unit, rounded_down(asked or unit, unit))
    return Advice(
        cause=f"the checkpoint has {unit} MTP layers, and k={asked or '?'} is no multiple of it",
        fix=f"-k {k}",
        settings={"num_speculative_tokens": k},
    )


def known_method(figures: Figures, _context: Context) -> Advice:
    asked = str(figures.get("method_name", ""))
    meant = {
        "eagle2": "eagle (the weights are the same)",
        "eagle1": "eagle",
        "draft": "draft_model",
        "lookahead": "ngram",
        "prompt_lookup": "ngram",
        "[ngram]": "ngram",
        "[gram]": "ngram",
        "gram": "ngram",
        "assistant": "draft_model",
    }.get(asked.lower())
    return Advice(cause=f"vLLM knows no method {asked!r}", fix=f"--method {meant}") if meant else Advice()


def draft_parallel(figures: Figures, _context: Context) -> Advice:
    asked = number(figures, "draft_size")
    if asked is None:
        return Advice()
    return Advice(
        cause=f"draft_tensor_parallel_size {asked:g}: it may be 1 or the target's, and for a draft model only the target's",
    )
