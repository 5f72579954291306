"""Sizes: of a run's checkpoints and settings, what every estimate is worked out from."""

from __future__ import annotations

from typing import Any

import msgspec

from speccli.checkpoint import Checkpoint, Checkpoints
from speccli.hardware import Hardware
from speccli.pairing import Pairing
from speccli.plan import draft, kv, quantization, shape, weights
from speccli.plan.draft import Draft
from speccli.plan.engine_memory import Load, runner_of
from speccli.plan.interval import Interval, about
from speccli.plan.kv import Cache
from speccli.plan.quantization import Format
from speccli.plan.shape import Shape
from speccli.profile import Settings

DTYPE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}

MAX_NUM_SEQS = 128
MAX_NUM_BATCHED_TOKENS = 2048
"""vLLM's where it is told neither, nor who asks (`vllm/config/scheduler.py: SchedulerConfig`)."""

BLACKWELL = 10


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """A pairing with its settings, in numbers; `shape` is None where the target's config does not tell enough."""

    target: Checkpoint
    speculator: Checkpoint | None
    shape: Shape | None
    form: Format
    draft: Draft
    dtype_bytes: int
    load: Load
    on_cpu: bool
    kv_cache_dtype: str | None = None
    block_size: int = kv.BLOCK
    prefix_caching: bool = True

    @property
    def is_known(self) -> bool:
        return self.shape is not None

    def target_weights(self) -> Interval:
        known = scaled_bytes(self.target, self.dtype_bytes, self.target.weight_bytes - self.target.mtp_bytes)
        size = self.load.tensor_parallel_size
        if self.shape is None:
            return about(known / size, 0.0, 0.005 if size == 1 else 0.02)
        margin = self.target.weight_margin
        return weights.on_device(self.shape, self.form, self.dtype_bytes, size, known, margin)

    def draft_weights(self) -> Interval:
        return draft.weight_bytes(self.draft, self.shape, self.load.tensor_parallel_size)

    def cache(self) -> Cache:
        if self.shape is None:
            return self._cache_of_elements()
        batches = 1 if self.on_cpu else 2
        return kv.cache_of(
            self.shape,
            self.draft,
            dtype_bytes=self.dtype_bytes,
            kv_cache_dtype=self.kv_cache_dtype,
            tensor_parallel_size=self.load.tensor_parallel_size,
            tokens_in_flight=batches * self.load.max_num_batched_tokens,
            block_size=self.block_size,
            prefix_caching=self.prefix_caching,
        )

    def _cache_of_elements(self) -> Cache:
        own = self.target.kv_elements_per_token
        added = self.speculator.kv_elements_per_token if self.speculator else 0
        width = kv.element_bytes(self.kv_cache_dtype, self.dtype_bytes)
        elements = -(-(own + added) // self.load.tensor_parallel_size)
        return kv.of_elements(elements, width, self.block_size, added / max(1, own + added))


def sizes_of(settings: Settings, hardware: Hardware, pairing: Pairing, checkpoints: Checkpoints) -> Sizes:
    target, speculator = checkpoints.target, checkpoints.speculator
    width = dtype_bytes(settings, hardware)
    on_cpu = hardware.kind == "cpu"
    engine = settings.engine or {}
    return Sizes(
        target=target,
        speculator=speculator,
        shape=shape.of_config(target.config) if target.config else None,
        form=quantization.of_config(target.config, width),
        draft=draft_of(pairing, checkpoints, width),
        dtype_bytes=width,
        load=load_of(settings, hardware, pairing, target),
        on_cpu=on_cpu,
        kv_cache_dtype=settings.kv_cache_dtype,
        block_size=engine.get("block_size") or (kv.CPU_BLOCK if on_cpu else kv.BLOCK),
        prefix_caching=engine.get("enable_prefix_caching") is not False,
    )


def load_of(settings: Settings, hardware: Hardware, pairing: Pairing, target: Checkpoint) -> Load:
    engine = settings.engine or {}
    length = settings.context_length(target.max_position_embeddings)
    count = settings.max_num_seqs or MAX_NUM_SEQS
    tokens = engine.get("max_num_batched_tokens") or min(MAX_NUM_BATCHED_TOKENS, count * length)
    capability = hardware.devices[0].compute_capability if hardware.devices else None
    return Load(
        runner="V1" if hardware.kind == "cpu" else runner_of(pairing.method, pairing.config),
        max_model_len=length,
        max_num_seqs=min(count, tokens),
        max_num_batched_tokens=tokens,
        tensor_parallel_size=settings.tensor_parallel_size or 1,
        enforce_eager=bool(settings.enforce_eager),
        is_blackwell=capability is not None and capability[0] == BLACKWELL,
    )


def draft_of(pairing: Pairing, checkpoints: Checkpoints, width: int) -> Draft:
    speculator = checkpoints.speculator
    config: dict[str, Any] = speculator.config if speculator else {}
    if speculator is not None:
        known = scaled_bytes(speculator, width, speculator.weight_bytes)
    else:
        target = checkpoints.target
        known = scaled_bytes(target, width, target.mtp_bytes) if pairing.method == "mtp" else 0
    return Draft(
        method=pairing.method,
        num_speculative_tokens=pairing.num_speculative_tokens,
        config=config,
        shape=shape.of_config(config) if config and pairing.method != "medusa" else None,
        form=quantization.of_config(config, width),
        dtype_bytes=width,
        known_bytes=known,
        margin=speculator.weight_margin if speculator else 0.0,
        settings=pairing.config,
    )


def dtype_bytes(settings: Settings, hardware: Hardware) -> int:
    """vLLM's "auto" turns 32 bits into 16 (`vllm/config/model.py: _resolve_auto_dtype`)."""
    return DTYPE_BYTES.get(chosen_dtype(settings, hardware), 2)


def chosen_dtype(settings: Settings, hardware: Hardware) -> str:
    """ "auto" is vLLM's choice, except on a processor that has no bfloat16: there float32 is several times faster."""
    asked = settings.dtype or "auto"
    if asked == "auto" and hardware.kind == "cpu" and hardware.cpu is not None and not hardware.cpu.has_bf16:
        return "float32"
    return asked


def scaled_bytes(checkpoint: Checkpoint, width: int, file_bytes: int) -> int:
    """As loaded: the files' bytes, scaled from the checkpoint's dtype to the one of the run. Packed weights stay as they are."""
    if quantization.of_config(checkpoint.config, width).is_quantized:
        return file_bytes
    return file_bytes * width // DTYPE_BYTES.get(checkpoint.dtype, 2)
