"""What the engine takes on a GPU beside weights and KV cache: buffers, the peak of the profile run, CUDA graphs."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from speccli.plan import weights
from speccli.plan.draft import Draft, logits_bytes
from speccli.plan.interval import GIB, MIB, NOTHING, Interval, about, gib
from speccli.plan.quantization import Format
from speccli.plan.shape import Shape

Runner = Literal["V1", "V2"]

MAX_REJECTION_LOGITS_BYTES = GIB
"""`v1/worker/gpu/sample/rejection_sampler.py: MAX_CHUNK_BYTES`."""

SMALLEST_TRANSIENT_BYTES = int(0.1 * GIB)

MAX_GRAPH_TOKENS = 512
MAX_GRAPH_TOKENS_BLACKWELL = 1024


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """What a run is asked to carry, and how."""

    runner: Runner
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    tensor_parallel_size: int = 1
    enforce_eager: bool = False
    is_blackwell: bool = False
    logit_bytes: Interval = Interval(14, 39)
    """Of the V1 runner's sampler for each logit: 14 with FlashInfer's or Triton's kernels, 38.7 where torch sorts."""
    is_compiled: bool = True
    """Where it is not, norms make copies in 32 bits."""


def buffers(target: Shape, draft: Draft, load: Load) -> Interval:
    """Kept for good. V2: `v1/worker/gpu/sample/penalties.py`, `structured_outputs.py`, `block_table.py`, `spec_decode/*/speculator.py`."""
    count, vocab, k = load.max_num_seqs, target.vocab_size, draft.num_speculative_tokens
    tables = 2 * count * load.max_model_len // 16 * 4 * max(1, len(target.attention))
    value = tables + _hidden_states(target, draft, load)
    if load.runner == "V1":
        return Interval(value, value + count * vocab // 8 + 64 * MIB)
    value += count * vocab * 4 + count * vocab // 8 + count * (k + 1) * vocab // 8
    if draft.settings.get("draft_sample_method") == "probabilistic":
        value += count * k * draft.vocab_size * 2
    if draft.method in ("ngram", "ngram_gpu"):
        value += count * load.max_model_len * 4
    return Interval(value, int(1.1 * value) + 32 * MIB)


def activations(target: Shape, draft: Draft, form: Format, load: Load) -> Interval:
    """The highest passing need of the profile run: `gpu_worker.py: determine_available_memory`, `model_runner.py: profile_run`."""
    peak = max(forward_bytes(target, draft, load), SMALLEST_TRANSIENT_BYTES)
    sampler = sampler_bytes(target, draft, load)
    bounds = Interval(int(0.85 * max(peak, sampler.low)), int(1.15 * max(peak, sampler.high)) + 100 * MIB)
    if not load.is_compiled or load.enforce_eager:
        bounds += Interval(0, 2 * load.max_num_batched_tokens * target.hidden_size * 4)
    if form.unpacks:
        bounds += Interval(0, weights.largest_matrix_bytes(target))
    return bounds + _unmodelled(target, load)


def forward_bytes(target: Shape, draft: Draft, load: Load) -> int:
    """Residual, normed input, gate and up, their product; and for heads the kept hidden states with their concatenation."""
    size, hidden = load.tensor_parallel_size, target.hidden_size
    inner = target.intermediate_size if target.experts is None else 0
    return load.max_num_batched_tokens * 2 * (2 * hidden + 3 * inner // size + 2 * draft.num_aux_states * hidden)


def sampler_bytes(target: Shape, draft: Draft, load: Load) -> Interval:
    """V2: 16-bit logits, the device's own and the gathered ones. V1: a real pass over them (`_dummy_sampler_run`)."""
    count, vocab, size = load.max_num_seqs, target.vocab_size, load.tensor_parallel_size
    if load.runner == "V1":
        return Interval(count * vocab * load.logit_bytes.low, count * vocab * load.logit_bytes.high)
    value = count * vocab * 2 * (size + 1) // size
    if draft.vocab_size:
        scattered = vocab if draft.method == "eagle3" and draft.vocab_size < vocab else 0
        value = max(value, count * (draft.vocab_size + scattered) * 2)
    return Interval(value, value)


def graphs(target: Shape, draft: Draft, load: Load) -> Interval:
    """The estimate that vLLM takes off the budget (`v1/worker/gpu/cudagraph_utils.py: profile_cudagraph_memory`).

    A weak fit to public logs: 0.15 GiB and 0.025 for each full graph, half as much again with a head, 0.5 either way.
    """
    if load.enforce_eager:
        return NOTHING
    middle = 0.15 + 0.025 * num_full_graphs(draft.num_speculative_tokens, load)
    middle *= 1.5 if draft.method in ("eagle", "eagle3", "mtp", "dflash", "dspark") else 1.0
    more = 1.5 if target.is_hybrid or target.experts else 0.5
    return gib(max(0.0, middle - 0.9), middle + more)


def num_full_graphs(k: int, load: Load) -> int:
    """Captured numbers of requests: 1, 2, 4, then in steps of 8 (`config/vllm.py: VllmConfig._set_cudagraph_sizes`)."""
    most = MAX_GRAPH_TOKENS_BLACKWELL if load.is_blackwell else MAX_GRAPH_TOKENS
    limit = min(2 * load.max_num_seqs * (k + 1), most, load.max_num_batched_tokens)
    counts = [1, 2, 4, *range(8, 256, 8), *range(256, most + 1, 16)]
    return sum(1 for count in counts if count <= load.max_num_seqs and count * (k + 1) <= limit)


def non_torch(tensor_parallel_size: int) -> Interval:
    """What libraries take after the first snapshot. The CUDA context and NCCL's are not in it: they are outside the budget."""
    if tensor_parallel_size == 1:
        return gib(0.02, 0.15)
    return gib(0.2, 0.6) if tensor_parallel_size < 4 else gib(0.2, 1.9)


def outside(target: Shape, draft: Draft, load: Load) -> dict[str, Interval]:
    """What serving takes that the profile run does not see, and the budget does not hold."""
    rows = load.max_num_seqs * (draft.num_speculative_tokens + 1)
    rejection = 0 if draft.method == "none" else min(rows * target.vocab_size * 4, MAX_REJECTION_LOGITS_BYTES)
    return {
        "medusa_logits": logits_bytes(draft, target, load.max_num_seqs),
        "rejection_logits": Interval(0, rejection),
    }


def runner_of(method: str, settings: dict[str, Any]) -> Runner:
    """On a GPU: `config/vllm.py: _get_v2_model_runner_unsupported_features`."""
    steps_back = method in ("suffix", "medusa") or bool(settings.get("use_heterogeneous_vocab"))
    steps_back |= bool(settings.get("parallel_drafting")) and method not in ("dflash", "dspark")
    return "V1" if steps_back else "V2"


def _hidden_states(target: Shape, draft: Draft, load: Load) -> int:
    if draft.method not in ("eagle", "eagle3", "mtp", "dflash", "dspark"):
        return 0
    return load.max_num_batched_tokens * target.hidden_size * 2 * max(1, draft.num_aux_states)


def _unmodelled(target: Shape, load: Load) -> Interval:
    """Experts' workspaces grow with the tokens, an encoder's with its largest picture: seen are 1 to 5 GiB."""
    added = NOTHING
    if target.experts is not None:
        width = max(2 * target.experts.intermediate_size // load.tensor_parallel_size, target.hidden_size)
        workspace = load.max_num_batched_tokens * target.experts.per_token * width * 2
        added += about(workspace, 0.3, 1.0) + gib(0.0, 0.5)
    if any("images" in doubt for doubt in target.doubts):
        added += gib(0.0, 2.0)
    return added
