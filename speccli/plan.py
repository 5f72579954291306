"""Plan: whether a pairing fits this machine, and what the engine is told. Pure arithmetic, nothing is loaded."""

from __future__ import annotations

import math
import os
from typing import Any

import msgspec

from speccli.checkpoint import Checkpoint, Checkpoints
from speccli.errors import MachineError
from speccli.hardware import Hardware
from speccli.hardware.preload import find_openmp, find_tcmalloc
from speccli.pairing import Pairing
from speccli.profile import Profile, Settings

GIB = 1024**3

DTYPE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}

PASSED = ("max_num_seqs", "tensor_parallel_size", "gpu_memory_utilization", "kv_cache_dtype")
"""Settings that vLLM has under the same name, and that its own defaults are good for."""

GPU_MEMORY_UTILIZATION = 0.92
"""vLLM's default (`vllm/config/cache.py`)."""

GPU_OVERHEAD_BYTES = 2 * GIB
"""Activations, buffers and CUDA graphs of one device: a rough figure, 1.5 to 3 GiB in public logs of vLLM 0.29 to 0.31."""

CPU_OVERHEAD_BYTES = int(1.5 * GIB)
"""What the engine's three processes hold on the CPU beside weights and KV cache: measured 1.3 GiB with SmolLM2-135M."""


class Plan(msgspec.Struct, frozen=True):
    """Everything decided, before anything large is loaded."""

    profile: Profile
    hardware: Hardware
    pairing: Pairing
    target: Checkpoint
    speculator: Checkpoint | None
    max_model_len: int
    weight_bytes: int
    kv_cache_bytes: int
    kv_tokens: int
    """Tokens that the KV cache holds, all requests together."""
    engine_arguments: dict[str, Any]
    """Of vLLM's `EngineArgs`."""
    environment: dict[str, str]
    """In force before the engine's processes start."""


def fit(profile: Profile, hardware: Hardware, pairing: Pairing, checkpoints: Checkpoints) -> Plan:
    """Work out the sizes. Raises `MachineError` where they cannot fit."""
    settings = profile.settings
    target, speculator = checkpoints.target, checkpoints.speculator
    dtype = chosen_dtype(settings, hardware)
    max_model_len = settings.context_length(target.max_position_embeddings)
    weight_bytes = _weight_bytes(target, dtype) + (_weight_bytes(speculator, dtype) if speculator else 0)
    per_token = _kv_bytes_per_token(target, speculator, dtype)
    one_request_bytes = per_token * max_model_len
    if hardware.kind == "cpu":
        kv_cache_bytes = _cpu_kv_cache_bytes(settings, hardware, one_request_bytes * (settings.max_num_seqs or 1))
        _check_memory(hardware, weight_bytes, kv_cache_bytes)
    else:
        kv_cache_bytes = _gpu_kv_cache_bytes(settings, hardware, weight_bytes)
    _check_one_request(kv_cache_bytes, one_request_bytes)
    return Plan(
        profile=profile,
        hardware=hardware,
        pairing=pairing,
        target=target,
        speculator=speculator,
        max_model_len=max_model_len,
        weight_bytes=weight_bytes,
        kv_cache_bytes=kv_cache_bytes,
        kv_tokens=kv_cache_bytes // per_token,
        engine_arguments=_engine_arguments(settings, pairing, target, speculator, max_model_len, dtype),
        environment=_environment(settings, hardware, kv_cache_bytes),
    )


def chosen_dtype(settings: Settings, hardware: Hardware) -> str:
    """ "auto" is vLLM's choice, except on a processor that has no bfloat16: there float32 is several times faster."""
    asked = settings.dtype or "auto"
    if asked == "auto" and hardware.kind == "cpu" and hardware.cpu is not None and not hardware.cpu.has_bf16:
        return "float32"
    return asked


def _kv_bytes_per_token(target: Checkpoint, speculator: Checkpoint | None, dtype: str) -> int:
    """A draft model's layers live in the target's block pool, so their bytes add up."""
    elements = target.kv_elements_per_token + (speculator.kv_elements_per_token if speculator else 0)
    return elements * _bytes_of(dtype, target)


def _weight_bytes(checkpoint: Checkpoint, dtype: str) -> int:
    """As loaded: the files' bytes, scaled from the checkpoint's dtype to the one of the run."""
    return checkpoint.weight_bytes * _bytes_of(dtype, checkpoint) // DTYPE_BYTES.get(checkpoint.dtype, 2)


def _bytes_of(dtype: str, checkpoint: Checkpoint) -> int:
    return DTYPE_BYTES.get(checkpoint.dtype if dtype == "auto" else dtype, 2)


def _cpu_kv_cache_bytes(settings: Settings, hardware: Hardware, wanted_bytes: int) -> int:
    """vLLM takes whole GiB. Without a setting: what the requests can use, but at most a quarter of the free memory."""
    if settings.kv_cache_gib is not None:
        return max(1, round(settings.kv_cache_gib)) * GIB
    available = hardware.cpu.memory_available_bytes if hardware.cpu else 0
    return max(1, min(math.ceil(wanted_bytes / GIB), available // 4 // GIB)) * GIB


def _gpu_kv_cache_bytes(settings: Settings, hardware: Hardware, weight_bytes: int) -> int:
    """About what is left: budget less weights less activations and graphs; the budget as in `gpu_worker.py`."""
    count = settings.tensor_parallel_size or 1
    share = settings.gpu_memory_utilization or GPU_MEMORY_UTILIZATION
    budget = sum(device.total_bytes for device in hardware.devices[:count]) * share
    left = int(budget - weight_bytes - count * GPU_OVERHEAD_BYTES)
    if left <= 0:
        raise MachineError(
            f"does not fit: weights {weight_bytes / GIB:.1f} GiB, and about {GPU_OVERHEAD_BYTES / GIB:.0f} GiB of overhead on each of "
            f"{count} device(s), leave nothing of a budget of {budget / GIB:.1f} GiB",
            "choose a smaller or quantised target, a smaller speculator, or more devices with tensor_parallel_size",
        )
    return left


def _check_one_request(kv_cache_bytes: int, one_request_bytes: int) -> None:
    if kv_cache_bytes < one_request_bytes:
        raise MachineError(
            f"a KV cache of {kv_cache_bytes / GIB:.1f} GiB does not hold one request of the whole context, which takes {one_request_bytes / GIB:.1f} GiB",
            "shorten the context with --max-model-len, or give the cache more memory (kv_cache_gib, gpu_memory_utilization)",
        )


def _check_memory(hardware: Hardware, weight_bytes: int, kv_cache_bytes: int) -> None:
    available = hardware.cpu.memory_available_bytes if hardware.cpu else 0
    needed = weight_bytes + kv_cache_bytes + CPU_OVERHEAD_BYTES
    if needed > available:
        raise MachineError(
            f"not enough memory: weights {weight_bytes / GIB:.1f} GiB + KV cache {kv_cache_bytes / GIB:.1f} GiB + engine {CPU_OVERHEAD_BYTES / GIB:.1f} GiB "
            f"need {needed / GIB:.1f} GiB, and {available / GIB:.1f} GiB are free",
            "close other programs, shorten the context with --max-model-len, or choose a smaller target",
        )


def _engine_arguments(
    settings: Settings,
    pairing: Pairing,
    target: Checkpoint,
    speculator: Checkpoint | None,
    max_model_len: int,
    dtype: str,
) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "model": target.path,
        "served_model_name": pairing.target,
        "dtype": dtype,
        "max_model_len": max_model_len,
        "enforce_eager": bool(settings.enforce_eager),
        "disable_log_stats": True,
    }
    if pairing.is_speculative:
        arguments["per_request_spec_decode_metrics"] = "summary"
        arguments["speculative_config"] = {
            "method": pairing.method,
            "num_speculative_tokens": pairing.num_speculative_tokens,
            **({"model": speculator.path} if speculator else {}),
            **pairing.config,
        }
    passed = {name: getattr(settings, name) for name in PASSED}
    arguments |= {name: value for name, value in passed.items() if value is not None}
    return {**arguments, **(settings.engine or {})}


def _environment(settings: Settings, hardware: Hardware, kv_cache_bytes: int) -> dict[str, str]:
    if hardware.kind != "cpu":
        return {}
    given = {"VLLM_CPU_KVCACHE_SPACE": str(kv_cache_bytes // GIB)}
    if settings.threads_bind is not None:
        given["VLLM_CPU_OMP_THREADS_BIND"] = settings.threads_bind
    libraries = [str(found) for found in (find_tcmalloc(), find_openmp()) if found is not None]
    if settings.preload is not False and libraries:
        given["LD_PRELOAD"] = ":".join([*libraries, *filter(None, [os.environ.get("LD_PRELOAD")])])
    return given
