"""Plan: whether a pairing fits this machine, and what the engine is told. Pure arithmetic, nothing is loaded."""

from __future__ import annotations

from typing import Any

import msgspec

from speccli.checkpoint import Checkpoint, Checkpoints
from speccli.errors import MachineError
from speccli.hardware import Hardware
from speccli.pairing import Pairing
from speccli.plan.arguments import PASSED, engine_arguments, environment, passed
from speccli.plan.budget import CPU_OVERHEAD_BYTES, GPU_MEMORY_UTILIZATION
from speccli.plan.estimate import Estimate, Verdict, of_run
from speccli.plan.interval import GIB, Interval
from speccli.plan.sizes import chosen_dtype, sizes_of
from speccli.profile import Profile

__all__ = [
    "CPU_OVERHEAD_BYTES",
    "GIB",
    "GPU_MEMORY_UTILIZATION",
    "PASSED",
    "Estimate",
    "Interval",
    "Plan",
    "Verdict",
    "chosen_dtype",
    "fit",
    "forecast",
    "passed",
]


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
    """Of all devices; on a GPU about in the middle of what may be left."""
    kv_tokens: int
    """Tokens that the KV cache holds, all requests together."""
    engine_arguments: dict[str, Any]
    """Of vLLM's `EngineArgs`."""
    environment: dict[str, str]
    """In force before the engine's processes start."""
    estimate: Estimate | None = None
    """The sizes that this comes from."""

    @property
    def warning(self) -> str:
        """What to say of a plan that only fits if all goes well; else empty."""
        if self.estimate is None or self.estimate.verdict != "tight":
            return ""
        longest = self.estimate.max_model_len_that_fits
        sure = f"; --max-model-len {longest} surely fits" if longest else ""
        return f"tight: {self.estimate.problem}{sure}"

    @property
    def checkpoints(self) -> Checkpoints:
        return Checkpoints(self.target, self.speculator)


def fit(profile: Profile, hardware: Hardware, pairing: Pairing, checkpoints: Checkpoints) -> Plan:
    """Work out the sizes. Raises `MachineError` where they cannot fit, with the first change that would help."""
    plan = forecast(profile, hardware, pairing, checkpoints)
    if plan.estimate is not None and plan.estimate.verdict == "does_not_fit":
        from speccli.plan import fixes

        found = fixes.first(profile, hardware, pairing, checkpoints)
        hint = found.told if found else "choose a smaller target, or a machine with more memory; see `speccli doctor`"
        raise MachineError(f"{pairing.target} does not fit {hardware.name}: {plan.estimate.problem}", hint)
    return plan


def forecast(profile: Profile, hardware: Hardware, pairing: Pairing, checkpoints: Checkpoints) -> Plan:
    """The same, whether it fits or not. Raises `MachineError` or `UsageError` where the devices cannot share it."""
    settings = profile.settings
    sizes = sizes_of(settings, hardware, pairing, checkpoints)
    estimated = of_run(settings, hardware, sizes)
    kv_cache_bytes = estimated.kv_cache.middle
    devices = estimated.num_devices
    weights = estimated.bytes["target_weights"] + estimated.bytes["draft_weights"]
    return Plan(
        profile=profile,
        hardware=hardware,
        pairing=pairing,
        target=checkpoints.target,
        speculator=checkpoints.speculator,
        max_model_len=estimated.max_model_len,
        weight_bytes=weights.low * devices,
        kv_cache_bytes=kv_cache_bytes * devices,
        kv_tokens=sizes.cache().tokens(kv_cache_bytes, estimated.max_model_len),
        engine_arguments=engine_arguments(settings, hardware, pairing, checkpoints),
        environment=environment(settings, hardware, kv_cache_bytes),
        estimate=estimated,
    )
