"""Whether a GPU can do the arithmetic that a pairing asks for: dtype, quantisation and KV cache against its capability."""

from __future__ import annotations

from collections.abc import Iterator

from speccli.diagnose import Finding
from speccli.hardware import Device
from speccli.plan import Plan
from speccli.plan.quantization import of_config

Capability = tuple[int, int]

BFLOAT16: Capability = (8, 0)
FP8: Capability = (8, 9)
FP4: Capability = (10, 0)

LEAST: dict[str, Capability] = {"fp8": (7, 5), "mxfp4": (8, 0), "modelopt": (7, 5), "compressed-tensors": (7, 0)}
"""vLLM's `get_min_capability` (`model_executor/layers/quantization/`)."""

NATIVE: dict[str, Capability] = {"fp8": FP8, "modelopt": FP8, "mxfp4": FP4}
"""From here on the arithmetic is in that format too; before, weights are unpacked to 16 bits on the way."""


def precision(plan: Plan) -> Iterator[Finding]:
    devices = plan.hardware.devices
    capability = devices[0].compute_capability if devices else None
    if capability is None:
        return
    yield from _dtype(plan, devices[0], capability)
    yield from _quantization(plan, devices[0], capability)
    yield from _kv_cache(plan, devices[0], capability)


def _dtype(plan: Plan, device: Device, capability: Capability) -> Iterator[Finding]:
    """`vllm/config/model.py: _resolve_auto_dtype`, `platforms/cuda.py: check_if_supports_dtype`."""
    asked = plan.profile.settings.dtype or "auto"
    if capability >= BFLOAT16 or asked in ("float16", "float32"):
        return
    if asked == "bfloat16":
        yield Finding(
            id="plan.dtype",
            severity="error",
            title="dtype",
            evidence=f"bfloat16 on {device.name}, capability {_text(capability)}",
            cause=f"bfloat16 came with {_text(BFLOAT16)}, and vLLM refuses it here",
            fix="--dtype float16",
            stops_runs=True,
        )
    elif plan.target.dtype == "bfloat16":
        yield Finding(
            id="plan.dtype",
            severity="info",
            title="dtype",
            evidence=f"the target is bfloat16, and {device.name} has none (capability {_text(capability)})",
            cause="vLLM falls back to float16, in which some models overflow",
            fix="--dtype float16 to say so yourself",
        )


def _quantization(plan: Plan, device: Device, capability: Capability) -> Iterator[Finding]:
    name = of_config(plan.target.config, 2).name
    least, native = LEAST.get(name), NATIVE.get(name)
    if least is not None and capability < least:
        yield Finding(
            id="plan.quantization",
            severity="error",
            title="format",
            evidence=f"{name} on {device.name}, capability {_text(capability)}",
            cause=f"vLLM's kernels for it need {_text(least)}",
            fix="choose another variant of the target: `speccli profiles show`",
            stops_runs=True,
        )
    elif native is not None and capability < native:
        yield Finding(
            id="plan.quantization",
            severity="info",
            title="format",
            evidence=f"{name} on {device.name}, capability {_text(capability)}",
            cause="weights are unpacked to 16 bits on the way: it saves memory, and arithmetic is no faster",
        )


def _kv_cache(plan: Plan, device: Device, capability: Capability) -> Iterator[Finding]:
    asked = plan.profile.settings.kv_cache_dtype
    if asked is not None and asked.startswith("fp8") and capability < FP8:
        yield Finding(
            id="plan.kv-cache-dtype",
            severity="warning",
            title="KV dtype",
            evidence=f"kv_cache_dtype {asked} on {device.name}, capability {_text(capability)}",
            cause=f"not every attention backend has it before {_text(FP8)}",
            fix="leave kv_cache_dtype out",
        )


def _text(capability: Capability) -> str:
    return ".".join(map(str, capability))
