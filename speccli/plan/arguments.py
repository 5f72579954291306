"""What the engine is told, and what is in force before its processes start."""

from __future__ import annotations

import os
from typing import Any

from speccli.checkpoint import Checkpoint, Checkpoints
from speccli.hardware import Hardware
from speccli.hardware.preload import find_openmp, find_tcmalloc
from speccli.pairing import Pairing
from speccli.plan.interval import GIB
from speccli.plan.sizes import chosen_dtype
from speccli.profile import Settings

PASSED = ("max_num_seqs", "tensor_parallel_size", "gpu_memory_utilization", "kv_cache_dtype", "reasoning_parser")
"""Settings that vLLM has under the same name, and that its own defaults are good for."""


def engine_arguments(
    settings: Settings, hardware: Hardware, pairing: Pairing, checkpoints: Checkpoints
) -> dict[str, Any]:
    """Of vLLM's `EngineArgs`."""
    target = checkpoints.target
    arguments: dict[str, Any] = {
        "model": target.path,
        "served_model_name": pairing.target,
        "dtype": chosen_dtype(settings, hardware),
        "max_model_len": settings.context_length(target.max_position_embeddings),
        "enforce_eager": bool(settings.enforce_eager),
        "disable_log_stats": True,
    }
    if pairing.is_speculative:
        arguments["per_request_spec_decode_metrics"] = "summary"
        arguments["speculative_config"] = _speculative(pairing, checkpoints.speculator)
    if pairing.method == "medusa" and _has_token_map(checkpoints):
        arguments["model_loader_extra_config"] = {"enable_weights_track": False}
    if settings.kv_cache_gib is not None and hardware.kind != "cpu":
        arguments["kv_cache_memory_bytes"] = int(settings.kv_cache_gib * GIB)
    if own_threads(settings, hardware):
        arguments["distributed_executor_backend"] = "uni"
    return {**arguments, **passed(settings), **(settings.engine or {})}


def passed(settings: Settings) -> dict[str, Any]:
    """Those of PASSED that are set, to something."""
    given = {name: getattr(settings, name) for name in PASSED}
    return {name: value for name, value in given.items() if value not in (None, "none")}


def environment(settings: Settings, hardware: Hardware, kv_cache_bytes: int) -> dict[str, str]:
    if hardware.kind != "cpu":
        return {}
    given = {"VLLM_CPU_KVCACHE_SPACE": str(kv_cache_bytes // GIB)}
    if settings.threads_bind is not None:
        given["VLLM_CPU_OMP_THREADS_BIND"] = settings.threads_bind
    given |= own_threads(settings, hardware)
    libraries = [str(found) for found in (find_tcmalloc(), find_openmp()) if found is not None]
    if settings.preload is not False and libraries:
        given["LD_PRELOAD"] = ":".join([*libraries, *filter(None, [os.environ.get("LD_PRELOAD")])])
    return given


def own_threads(settings: Settings, hardware: Hardware) -> dict[str, str]:
    """OpenMP's threads for an engine that is one process; empty where vLLM is to bind them, in a process of their own.

    vLLM gives its CPU worker a process, and the scheduler's a core to itself, on which it waits without sleeping. On a
    machine of few cores that costs more than it brings: with two, one process answers 1.6 times as fast.
    """
    cpu = hardware.cpu
    if settings.threads_bind is not None or (settings.tensor_parallel_size or 1) > 1:
        return {}
    if hardware.kind != "cpu" or cpu is None or cpu.numa_nodes > 1 or not cpu.core_cpus:
        return {}
    count = max(1, min(len(cpu.core_cpus), cpu.usable_cpus))
    return {"OMP_NUM_THREADS": str(count), "KMP_BLOCKTIME": "5", "KMP_TPAUSE": "0"}


def _has_token_map(checkpoints: Checkpoints) -> bool:
    """Whether Medusa heads know a part of the vocabulary only.

    vLLM 0.32 takes their token_map for a weight once it is read, misses it among those that were loaded, and stops
    (`models/medusa.py: load_weights`, `default_loader.py: track_weights_loading`), unless told not to count.
    """
    truncated = (checkpoints.speculator.config if checkpoints.speculator else {}).get("truncated_vocab_size")
    return truncated is not None and truncated != checkpoints.target.config.get("vocab_size")


def _speculative(pairing: Pairing, speculator: Checkpoint | None) -> dict[str, Any]:
    return {
        "method": pairing.method,
        "num_speculative_tokens": pairing.num_speculative_tokens,
        **({"model": speculator.path} if speculator else {}),
        **pairing.config,
    }
