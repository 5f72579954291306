"""What a log tells of the run itself: the configuration, and how far the engine had come."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from speccli.diagnose.failures.words import any_of

PHASES: dict[str, str] = {
    "initializing a v1 llm engine": "starting",
    "initializing an llm engine": "starting",
    "starting to load model": "loading",
    "loading drafter model": "loading-draft",
    "loading draft model": "loading-draft",
    "model loading took": "profiling",
    "loading model weights took": "profiling",
    "memory profiling takes": "kv-cache",
    "available kv cache memory": "kv-cache",
    "kv cache size:": "kv-cache",
    "capturing cuda graph": "graphs",
    "capturing cudagraph": "graphs",
    "capturing the model for cuda": "graphs",
    "init engine (": "ready",
    "application startup complete": "ready",
    "starting vllm api server": "ready",
    "avg generation throughput": "ready",
}
"""Words of lines by which vLLM, 0.6 to 0.32, tells what it does next."""

_PHASE = any_of(PHASES)

NEW_RUN = ("vllm api server version", "non-default args")

_SETTINGS = ("config: ", "args", "chunked prefill", "gpu_memory_utilization (")
_NUMBER = r"(?:=|': |\": ?| \()\(?([\d.]+)"
_TEXT = r"(?:=|': |\": ?)['\"]([^'\"]{1,300})['\"]"
_FIGURES: dict[str, tuple[str, type]] = {
    "max_model_len": (rf"\b(?:max_seq_len|max_model_len){_NUMBER}", int),
    "gpu_memory_utilization": (rf"\bgpu_memory_utilization{_NUMBER}", float),
    "max_num_seqs": (rf"\bmax_num_seqs{_NUMBER}", int),
    "max_num_batched_tokens": (rf"\bmax_num_batched_tokens{_NUMBER}", int),
    "tensor_parallel_size": (rf"\btensor_parallel_size{_NUMBER}", int),
    "num_speculative_tokens": (rf"\b(?:num_spec_tokens|num_speculative_tokens){_NUMBER}", int),
}
_TEXTS: dict[str, str] = {
    "model": rf"\bmodel{_TEXT}",
    "version": r"engine \(v([\w.+]+)\)|API server version:? v?([\w.+]+)",
    "device": r"\bdevice_config=(?:device\()?(?:type=)?['\"]?(\w+)",
}
_SPECULATION = re.compile(r"\bspeculative_config(?:=SpeculativeConfig\(|': \{|=\{|\": ?\{)(.{1,600})")
_WEIGHTS = re.compile(r"(?:[Mm]odel loading took|[Ll]oading model weights took) ([\d.]+) ?(?:GiB|GB)")
_KV_CACHE = re.compile(r"Available KV cache memory: ?(-?[\d.]+) GiB")


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """The run that a log is of. What the log does not say is None or empty."""

    version: str = ""
    model: str = ""
    device: str = ""
    method: str = ""
    speculator: str = ""
    num_speculative_tokens: int | None = None
    max_model_len: int | None = None
    gpu_memory_utilization: float | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    tensor_parallel_size: int | None = None
    weights_gib: float | None = None
    kv_cache_gib: float | None = None
    phase: str = ""

    @property
    def is_cpu(self) -> bool:
        return self.device == "cpu"

    def after(self, text: str, lower: str) -> Context:
        """This and one more line, of level INFO, DEBUG or none."""
        found: dict[str, Any] = {}
        if words := _PHASE.search(lower):
            found["phase"] = PHASES[words[0]]
        if any(words in lower for words in _SETTINGS):
            found |= _settings(text)
        if "took" in lower and (weights := _WEIGHTS.search(text)):
            found["weights_gib"] = float(weights[1])
        if "kv cache memory" in lower and (kv_cache := _KV_CACHE.search(text)):
            found["kv_cache_gib"] = float(kv_cache[1])
        return msgspec.structs.replace(self, **found) if found else self


def _settings(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, (pattern, kind) in _FIGURES.items():
        if (value := re.search(pattern, text)) and _is_number(value[1]):
            found[name] = kind(float(value[1]))
    for name, pattern in _TEXTS.items():
        if match := re.search(pattern, text):
            found[name] = next(group for group in match.groups() if group)
    if match := _SPECULATION.search(text):
        found |= _speculation(match[1])
    return found


def _speculation(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, key in (("method", "method"), ("speculator", "model")):
        if match := re.search(rf"\b{key}{_TEXT}", text):
            found[name] = match[1]
    return found


def _is_number(text: str) -> bool:
    return text.count(".") <= 1 and any(character.isdigit() for character in text)
