"""Pair: what is checked. Fault: what is found."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from speccli.checkpoint.inspection import Inspection

Severity = Literal["error", "warning", "info"]
"""It will not run, or not do what was asked; it runs and is worth less than it could be; good to know."""


CONVERTED = "speccli gives the engine a converted copy"
"""The fix of what `checkpoint.convert` puts right by itself."""


class Fault(msgspec.Struct, frozen=True):
    id: str
    """Stable, such as "pair.vocab-size"."""
    severity: Severity
    evidence: str
    cause: str
    fix: str


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """A target and what is to speculate for it. `config` holds further keys of vLLM's speculative_config."""

    target: Inspection
    speculator: Inspection | None
    method: str
    num_speculative_tokens: int
    tensor_parallel_size: int = 1
    max_model_len: int | None = None
    """None: the target's own."""
    on_cpu: bool = False
    config: dict[str, Any] = {}

    @property
    def runner(self) -> Literal["V1", "V2"]:
        """The model runner that vLLM chooses (`config/vllm.py`): V2 on a GPU, but not for all of them."""
        steps_back = self.method in ("suffix", "medusa", "custom_class")
        steps_back |= bool(self.config.get("use_heterogeneous_vocab"))
        steps_back |= bool(self.config.get("parallel_drafting")) and self.method not in ("dflash", "dspark")
        return "V1" if self.on_cpu or steps_back else "V2"

    @property
    def context_length(self) -> int | None:
        return self.max_model_len or self.target.architecture.max_position_embeddings


def error(rule: str, evidence: str, cause: str, fix: str) -> Fault:
    return Fault(f"pair.{rule}", "error", evidence, cause, fix)


def warning(rule: str, evidence: str, cause: str, fix: str) -> Fault:
    return Fault(f"pair.{rule}", "warning", evidence, cause, fix)


def info(rule: str, evidence: str, cause: str, fix: str) -> Fault:
    return Fault(f"pair.{rule}", "info", evidence, cause, fix)
