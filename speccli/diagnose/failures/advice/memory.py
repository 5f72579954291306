"""What to do about memory: settings worked out from the sizes that the log tells."""

from __future__ import annotations

import math

from speccli.diagnose.failures.context import Context
from speccli.diagnose.failures.figures import gib, number, rounded_down, whole
from speccli.diagnose.failures.kind import Advice, Figures, Settings
from speccli.plan import GPU_MEMORY_UTILIZATION

HIGH_UTILIZATION = 0.9
SMALLEST_UTILIZATION = 0.1


def kv_cache_too_small(figures: Figures, context: Context) -> Advice:
    asked, limit = whole(figures, "asked_tokens"), whole(figures, "limit_tokens")
    needed, available = number(figures, "needed_gib"), number(figures, "available_gib")
    estimated = ""
    if limit is None and asked and needed and available:
        limit, estimated = int(asked * available / needed * 0.98), " (estimated: in proportion to the memory)"
    if not limit:
        return Advice()
    length = rounded_down(limit)
    sizes = f"{gib(needed)} of KV cache for one request, and {gib(available)} are left" if needed and available else ""
    cause = f"{sizes or 'the KV cache is too small for one request'}: room for {limit} tokens, {asked or 'more'} were asked for"
    return Advice(
        cause=cause + _draft_takes_part(context),
        fix=f"--max-model-len {length}{estimated}; more room: {_raise_or_shrink(context)}",
        settings={"max_model_len": length},
    )


def no_kv_cache(_figures: Figures, context: Context) -> Advice:
    weights = f" of {gib(context.weights_gib)}" if context.weights_gib else ""
    return Advice(
        cause=f"weights{weights} and working memory take the whole budget, nothing is left for the KV cache"
        + _draft_takes_part(context),
        fix=_raise_or_shrink(context),
    )


def gpu_busy(figures: Figures, _context: Context) -> Advice:
    free, total, asked = (number(figures, name) for name in ("free_gib", "total_gib", "utilization"))
    if not free or not total:
        return Advice()
    share = math.floor(100 * free / total - 2) / 100
    cause = f"only {gib(free)} of {gib(total)} are free when vLLM starts"
    if asked:
        cause += f", and a share of {asked:g} means {gib(asked * total)} (a share of the whole, not of what is free)"
    if share < SMALLEST_UTILIZATION:
        return Advice(
            cause=cause, fix="end what holds the GPU (nvidia-smi lists it), or take another: CUDA_VISIBLE_DEVICES"
        )
    return Advice(
        cause=cause,
        fix=f"end what holds the GPU (nvidia-smi lists it), or --gpu-memory-utilization {share:.2f} at most, or another GPU with CUDA_VISIBLE_DEVICES",
        settings={"gpu_memory_utilization": share},
    )


def out_of_memory(figures: Figures, context: Context, when: str = "") -> Advice:
    asked, free, total = (number(figures, name) for name in ("asked_gib", "free_gib", "total_gib"))
    sizes = f": {gib(asked)} asked for" if asked else ""
    if free is not None and total:
        sizes += f", {gib(free)} of {gib(total)} free"
    others = number(figures, "others_gib")
    if others and (own := number(figures, "own_gib")) and others > own / 10:
        return Advice(
            cause=f"the GPU is full{when}{sizes}; another process holds {gib(others)} of it",
            fix="end the other process (nvidia-smi lists it), or take another GPU with CUDA_VISIBLE_DEVICES",
        )
    return Advice(cause=f"the GPU is full{when}{sizes}{_draft_takes_part(context)}")


def weights_too_large(figures: Figures, context: Context) -> Advice:
    told = out_of_memory(figures, context, " while the weights are loaded")
    count = 2 * (context.tensor_parallel_size or 1)
    return Advice(
        cause=told.cause,
        fix=told.fix
        or f"a quantised or smaller target, a smaller speculator or one without weights (--method ngram), "
        f"or more GPUs (--tensor-parallel-size {count}); another share of the GPU does not help here",
    )


def graphs_too_large(figures: Figures, context: Context) -> Advice:
    told, settings = (
        out_of_memory(figures, context, " while CUDA graphs are captured"),
        _lower_utilization(context, 0.03),
    )
    return Advice(
        cause=told.cause,
        fix=told.fix or f"{_as_text(settings)}; or --eager (no graphs); or a smaller --max-num-seqs",
        settings={} if told.fix else settings,
    )


def sampler_too_large(figures: Figures, context: Context) -> Advice:
    sequences = whole(figures, "sequences") or context.max_num_seqs
    k = context.num_speculative_tokens
    cause = "the sampler's buffers grow with sequences x vocabulary"
    cause += f"; with k={k} each sequence has {k + 1} rows" if k else ", and with speculation by k + 1"
    return Advice(
        cause=f"{sequences} sequences at once leave no room: {cause}" if sequences else cause,
        fix="--max-num-seqs 16 (a chat needs 1; a batch gains little beyond what it keeps busy), or a --gpu-memory-utilization 0.03 lower",
        settings={"max_num_seqs": min(16, sequences or 16)},
    )


def ran_out(figures: Figures, context: Context) -> Advice:
    told, settings = out_of_memory(figures, context, " while requests run"), _lower_utilization(context, 0.05)
    return Advice(
        cause=f"{told.cause}; what verification and long prompts take is not all set aside at the start",
        fix=told.fix or f"{_as_text(settings)}; or a smaller --max-num-seqs, max_num_batched_tokens or -k",
        settings={} if told.fix else settings,
    )


def cpu_memory(figures: Figures, context: Context) -> Advice:
    free, total = number(figures, "free_gib"), number(figures, "total_gib")
    if free is None:
        return Advice()
    space = max(1, min(4, int((free - (context.weights_gib or 0)) / 2)))
    return Advice(
        cause=f"{gib(free)}{f' of {gib(total)}' if total else ''} of memory are free, and vLLM takes a share of all of it unless told how much",
        fix=f"kv_cache_gib: {space} in a profile, or VLLM_CPU_KVCACHE_SPACE={space} (whole GiB); end other programs if it is still too much",
        settings={"kv_cache_gib": space},
    )


def _draft_takes_part(context: Context) -> str:
    if context.method in ("", "ngram", "ngram_gpu", "suffix"):
        return ""
    return f"; the speculator ({context.method}) takes its part, with weights and KV cache of its own"


def _raise_or_shrink(context: Context) -> str:
    """Raising the share helps only where there is something left to raise."""
    share = context.gpu_memory_utilization
    smaller = "a quantised or smaller target, a smaller speculator or --method ngram (no weights), kv_cache_dtype fp8, or --tensor-parallel-size "
    smaller += str(2 * (context.tensor_parallel_size or 1))
    if context.is_cpu:
        return "kv_cache_gib (VLLM_CPU_KVCACHE_SPACE) larger, or a smaller target"
    if share is not None and share >= HIGH_UTILIZATION:
        return f"{smaller}; gpu_memory_utilization is {share:g} already"
    return f"--gpu-memory-utilization 0.95 if nothing else is on the GPU, {smaller}"


def _lower_utilization(context: Context, by: float) -> Settings:
    share = context.gpu_memory_utilization
    return {"gpu_memory_utilization": round((GPU_MEMORY_UTILIZATION if share is None else share) - by, 2)}


def _as_text(settings: Settings) -> str:
    return ", ".join(f"--{name.replace('_', '-')} {value}" for name, value in settings.items())
