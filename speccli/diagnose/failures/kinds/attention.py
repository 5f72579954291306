"""Attention backends, state caches of hybrid models, CUDA graphs and compilation."""

from __future__ import annotations

from speccli.diagnose.failures.context import Context
from speccli.diagnose.failures.figures import whole
from speccli.diagnose.failures.kind import GENERAL, Advice, Figures, Kind


def no_backend(figures: Figures, context: Context) -> Advice:
    if context.method not in ("", "dflash", "dspark") and "causal" not in str(figures.get("reason_text", "")):
        return Advice()
    if "reason_text" not in figures:
        return Advice()
    return Advice(
        cause=f"no backend does all of it: {figures['reason_text']}; DFlash drafts need non-causal attention",
        fix='in the speculative configuration "attention_backend": "FLASHINFER" or "FLEX_ATTENTION" and "kv_cache_dtype": "auto"; else --method mtp or eagle3',
        settings={"kv_cache_dtype": "auto"},
    )


def state_blocks(figures: Figures, _context: Context) -> Advice:
    limit, asked = whole(figures, "limit_sequences"), whole(figures, "asked_sequences")
    if not limit:
        return Advice()
    return Advice(
        cause=f"a hybrid model takes one state block for each sequence, and k more with speculation: {limit} blocks for {asked or 'more'} sequences",
        fix=f"--max-num-seqs {limit} or fewer (16 is plenty for a chat), -k 1 or 2",
        settings={"max_num_seqs": limit},
    )


def captured(figures: Figures, context: Context) -> Advice:
    size = whole(figures, "capture_tokens")
    if size is None:
        return Advice()
    k, sequences = context.num_speculative_tokens, context.max_num_seqs
    needed = f": {sequences} x {k + 1} = {sequences * (k + 1)}" if k and sequences else ""
    alone = f", which is {size // (k + 1)} sequence{'s' if size // (k + 1) != 1 else ''} with k={k}" if k else ""
    return Advice(
        cause=f"CUDA graphs reach up to {size} tokens only{alone}; larger steps run without, many times slower",
        fix=f"leave max_cudagraph_capture_size out, or set it to max_num_seqs x (k + 1){needed}",
        settings={"max_cudagraph_capture_size": sequences * (k + 1)} if k and sequences else {},
    )


def cached_graph(figures: Figures, _context: Context) -> Advice:
    old, new = whole(figures, "cached_size"), whole(figures, "asked_size")
    if not old or not new:
        return Advice()
    return Advice(
        cause=f"compiled code for {new} tokens met {old}: it was compiled and cached with another k, which is no part of the cache's key"
    )


KINDS = (
    Kind(
        id="crash.attention-backend",
        title="no attention backend fits",
        says=(
            "no valid attention backend",
            ("selected backend", "is not valid"),
            "non-causal attention not supported",
            ("attention", "head size", "not supported"),
            ("head_size", "not supported", "backend"),
            "flashattention only supports ampere",
            ("flash attention", "not supported", "capability"),
            ("attention backend", "not support"),
        ),
        figures=(
            r"[Rr]easons?: (?P<reason_text>.{1,300})",
            r"head_(?:size|dim)=(?P<head_size>\d+)",
            r"kv_cache_dtype='?(?P<kv_cache_dtype_name>\w+)",
        ),
        cause="none of vLLM's attention kernels does what is asked for on this GPU: head size, type of the KV cache, non-causal drafts",
        fix='kv_cache_dtype auto, no attention backend named by hand; for DFlash "attention_backend" in the speculative configuration, or another method',
        advise=no_backend,
    ),
    Kind(
        id="crash.state-blocks",
        title="more sequences than state blocks",
        says=(
            ("exceeds available mamba cache blocks",),
            ("mamba cache", "max_num_seqs"),
            ("state cache", "max_num_seqs"),
        ),
        figures=(
            r"max_num_seqs \((?P<asked_sequences>\d+)\)",
            r"cache\s+blocks \((?P<limit_sequences>\d+)\)",
            r"at most\s+(?P<limit_sequences>\d+)",
        ),
        cause="a hybrid model takes a state block for each sequence, and k more with speculation",
        fix="a smaller max_num_seqs and a smaller -k",
        advise=state_blocks,
    ),
    Kind(
        id="crash.state-prefix",
        title="prefix caching with state layers",
        says=(
            ("mamba", "prefix caching", "not support"),
            ("mamba_cache_mode", "must"),
            ("mamba", "block_size", "must"),
            ("hybrid kv cache manager", "not supported"),
        ),
        cause="hybrid models keep a state for each sequence beside the KV cache, and not every setting goes with it",
        fix="enable_prefix_caching false, or the block size and cache mode left to vLLM",
    ),
    Kind(
        id="crash.graph-size",
        title="CUDA graphs for few tokens only",
        says=("truncating max_cudagraph_capture_size",),
        figures=(r"capture_size to (?P<capture_tokens>\d+)",),
        cause="the size of CUDA graphs counts tokens: each sequence of a step has k + 1",
        fix="leave max_cudagraph_capture_size out, or set it to max_num_seqs x (k + 1)",
        advise=captured,
        severity="warning",
        in_warnings=True,
    ),
    Kind(
        id="crash.compile-cache",
        title="the compile cache is of another k",
        says=(("expected size", "stride", "at dim"),),
        figures=(r"expected size (?P<cached_size>\d+)==(?P<asked_size>\d+)",),
        cause="compiled code was cached with another k, which is no part of the cache's key",
        fix="rm -rf ~/.cache/vllm/torch_compile_cache (VLLM_CACHE_ROOT moves it; VLLM_DISABLE_COMPILE_CACHE=1 leaves it out)",
        advise=cached_graph,
    ),
    Kind(
        id="crash.compiler",
        title="no compiler",
        says=(
            "failed to find c compiler",
            "invalidcxxcompiler",
            "no working c++ compiler",
            ("python.h", "no such file"),
            ("gcc", "not found"),
            ("g++", "not found"),
            ("nvcc", "not found"),
            ("cuda_home", "not set"),
            ("ninja", "required"),
            ("no such file or directory: 'nvcc'",),
            ("no such file or directory: 'ninja'",),
        ),
        cause="torch.compile and Triton call a C compiler (and some kernels nvcc) at run time",
        fix="apt-get install build-essential python3-dev (Debian, Ubuntu); or --eager, which compiles less",
    ),
    Kind(
        id="crash.triton",
        title="Triton is missing",
        says=("no module named 'triton'", ("requires triton",), ("triton", "is not installed", "require")),
        cause="this method runs kernels written in Triton, which the CPU build has not",
        fix="--method ngram instead of ngram_gpu; on a GPU: pip install 'speccli[cuda]'",
    ),
    Kind(
        id="crash.compilation",
        title="compilation failed",
        says=(
            "torch._inductor.exc",
            "torch._dynamo.exc",
            "inductorerror",
            "backendcompilerfailed",
            "triton.compiler.errors",
            "ptxas",
        ),
        cause="torch.compile, or Triton, could not compile the model",
        fix="--eager runs without; a stale cache is one cause: rm -rf ~/.cache/vllm/torch_compile_cache",
        rank=GENERAL,
    ),
)
