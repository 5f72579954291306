"""Rules about what a run reads and writes: the caches, the hub, and the variables that steer both."""

import re
from collections.abc import Callable

from speccli.diagnose import Finding
from speccli.diagnose.facts import Facts, Folder
from speccli.plan.interval import GIB

ROOM_FOR_A_MODEL_BYTES = 20 * GIB
NO_ROOM_BYTES = GIB
PREFIXES = ("VLLM_", "HF_")
NAMES = (
    "CUDA_DEVICE_ORDER",
    "CUDA_VISIBLE_DEVICES",
    "HUGGING_FACE_HUB_TOKEN",
    "LD_PRELOAD",
    "OMP_NUM_THREADS",
    "TRANSFORMERS_OFFLINE",
)
SECRETS = ("TOKEN", "KEY", "SECRET", "PASSWORD")


def hub_cache(facts: Facts) -> Finding:
    return _folder("env.hub-cache", "hub cache", facts.hub_cache, "HF_HOME")


def speccli_cache(facts: Facts) -> Finding:
    return _folder("env.speccli-cache", "speccli cache", facts.speccli_cache, "SPECCLI_CACHE")


def hub(facts: Facts) -> Finding:
    endpoint = _public(facts.hub.endpoint)
    if facts.hub.offline_because:
        evidence = f"not asked ({facts.hub.offline_because})"
        return Finding(id="env.hub", severity="info", title="hub", evidence=evidence)
    if not facts.hub.error:
        evidence = f"{endpoint} answers in {facts.hub.answer_s * 1000:.0f} ms"
        return Finding(id="env.hub", severity="ok", title="hub", evidence=evidence)
    return Finding(
        id="env.hub",
        severity="warning",
        title="hub",
        evidence=f"{endpoint}: {facts.hub.error}",
        cause="no checkpoint can be fetched; what is in the cache and the embedded default still run",
        fix="HF_HUB_OFFLINE=1 to stay with the cache, HF_ENDPOINT=... for a mirror",
    )


def token(facts: Facts) -> Finding:
    if facts.hub.token_from:
        return Finding(id="env.token", severity="ok", title="token", evidence=f"found in {facts.hub.token_from}")
    return Finding(
        id="env.token",
        severity="info",
        title="token",
        evidence="none",
        cause="only gated checkpoints (Llama, Gemma) ask for one",
        fix="hf auth login, or HF_TOKEN=...",
    )


def kv_space(facts: Facts) -> Finding | None:
    value = facts.environ.get("VLLM_CPU_KVCACHE_SPACE")
    if value is None or value.strip().isdigit():
        return None
    return Finding(
        id="env.kv-space",
        severity="error",
        title="KV cache",
        evidence=f"VLLM_CPU_KVCACHE_SPACE={value}",
        cause="vLLM wants whole GiB there and stops on anything else",
        fix="unset VLLM_CPU_KVCACHE_SPACE, or set it to 1 or more",
    )


def variables(facts: Facts) -> Finding | None:
    """What the user has set for vLLM, the hub and CUDA; it explains much when a report is read elsewhere."""
    matter = {name: facts.environ[name] for name in sorted(facts.environ) if name.startswith(PREFIXES) or name in NAMES}
    if not matter:
        return None
    shown = (f"{name} (set)" if _is_secret(name) else f"{name}={_public(value)}" for name, value in matter.items())
    return Finding(id="env.variables", severity="info", title="variables", evidence=", ".join(shown))


STORAGE: tuple[Callable[[Facts], Finding | None], ...] = (hub_cache, speccli_cache)
HUB: tuple[Callable[[Facts], Finding | None], ...] = (hub, token)
VARIABLES: tuple[Callable[[Facts], Finding | None], ...] = (kv_space, variables)


def _folder(name: str, title: str, folder: Folder, variable: str) -> Finding:
    evidence = f"{folder.path}, {folder.free_bytes / GIB:.1f} GiB free"
    if not folder.is_writable:
        return Finding(
            id=name,
            severity="error",
            title=title,
            evidence=f"{folder.path} is not writable",
            cause="nothing can be fetched or unpacked into it",
            fix=f"{variable}=/a/folder/of/yours",
        )
    if folder.free_bytes >= ROOM_FOR_A_MODEL_BYTES:
        return Finding(id=name, severity="ok", title=title, evidence=evidence)
    return Finding(
        id=name,
        severity="error" if folder.free_bytes < NO_ROOM_BYTES else "warning",
        title=title,
        evidence=evidence,
        cause="a model of 8 billion parameters takes 16 GB",
        fix=f"make room, or {variable}=/a/larger/disk",
    )


def _public(text: str) -> str:
    """Without the name and password that an address may carry."""
    return re.sub(r"//[^/@\s]+@", "//...@", text)


def _is_secret(name: str) -> bool:
    return any(part in name for part in SECRETS)
