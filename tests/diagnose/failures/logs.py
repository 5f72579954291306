"""Logs as vLLM writes them: several processes, a cause in the middle, and wrappers at the end."""

from __future__ import annotations

from io import BytesIO

from speccli.diagnose.failures import Diagnosis, explain

CONFIG = (
    "Initializing a V1 LLM engine (v0.32.0) with config: model='acme/llama-8b', "
    "speculative_config=SpeculativeConfig(method='{method}', model='acme/draft', num_spec_tokens={k}), dtype=torch.bfloat16, "
    "max_seq_len=131072, tensor_parallel_size=1, quantization=None, device_config={device}, seed=0"
)


def diagnose(text: str) -> Diagnosis:
    return explain(BytesIO(text.encode()))


def started(method: str = "eagle3", k: int = 5, device: str = "cuda") -> str:
    return "\n".join(
        (
            "(APIServer pid=100) INFO 11-29 18:41:40 [utils.py:253] non-default args: {'model': 'acme/llama-8b', 'gpu_memory_utilization': 0.95, 'max_num_seqs': 64}",
            f"(EngineCore_DP0 pid=123) INFO 11-29 18:42:06 [core.py:133] {CONFIG.format(method=method, k=k, device=device)}",
            "(Worker_TP0 pid=130) INFO 11-29 18:42:23 [parallel_state.py:1906] world_size=1 rank=0 backend=nccl",
            "(Worker_TP0 pid=130) WARNING 11-29 18:42:24 [utils.py:597] An alternative kernel is used; this may be slower.",
            "",
        )
    )


def ready() -> str:
    return "\n".join(
        (
            "(EngineCore_DP0 pid=123) INFO 11-29 18:43:30 [core.py:402] init engine (profile, create kv cache, warmup model) took 13.05 s",
            "(APIServer pid=100) INFO 11-29 18:43:31 [launcher.py:40] Application startup complete.",
            "",
        )
    )


def crashed(
    cause: str,
    frames: tuple[str, ...] = ('File "/x/vllm/v1/worker/gpu_worker.py", line 300, in run', "self.do()"),
    start: str | None = None,
) -> str:
    """A worker's traceback ends in `cause`; what other processes say of it follows."""
    worker = "(Worker_TP0 pid=130) ERROR 11-29 18:42:40 [multiproc_executor.py:870]"
    core = "(EngineCore_DP0 pid=123) ERROR 11-29 18:42:41 [core.py:1510]"
    lines = [
        f"{worker} WorkerProc failed to start.",
        f"{worker} Traceback (most recent call last):",
        *(f"{worker}   {frame}" for frame in frames),
        *(f"{worker} {line}" for line in cause.splitlines()),
        f"{core} EngineCore failed to start.",
        f"{core} Traceback (most recent call last):",
        f'{core}   File "/x/vllm/v1/engine/core.py", line 1200, in run_engine_core',
        f"{core}     engine_core = EngineCoreProc(*args, **kwargs)",
        f"{core} Exception: WorkerProc initialization failed due to an exception in a background process. See stack trace for root cause.",
        "Traceback (most recent call last):",
        '  File "/x/bin/vllm", line 8, in <module>',
        "    sys.exit(main())",
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
    ]
    return (started() if start is None else start) + "\n".join(lines) + "\n"
