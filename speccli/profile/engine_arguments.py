"""The names of vLLM's engine arguments, read from the installed vLLM without importing it."""

from __future__ import annotations

import ast
import difflib
import functools
import importlib.util
from collections.abc import Collection
from pathlib import Path
from typing import Any

COUNTS = ("block_size", "max_num_batched_tokens")
"""Whole numbers that the plan reckons with."""

BY_SPECCLI = {
    "model": "write `target`",
    "tokenizer": "the target's own is taken; put both into one folder",
    "revision": "write `target: ORG/NAME@REVISION`",
    "speculative_config": "write `method`, `speculator` and `num_speculative_tokens`",
    "spec_method": "write `method`",
    "spec_model": "write `speculator`",
    "spec_tokens": "write `num_speculative_tokens`",
    "dtype": "write `dtype` without `engine`",
    "max_model_len": "write `max_model_len` without `engine`",
    "max_num_seqs": "write `max_num_seqs` without `engine`",
    "enforce_eager": "write `enforce_eager` without `engine`",
    "tensor_parallel_size": "write `tensor_parallel_size` without `engine`",
    "gpu_memory_utilization": "write `gpu_memory_utilization` without `engine`",
    "kv_cache_dtype": "write `kv_cache_dtype` without `engine`",
    "kv_cache_memory_bytes": "write `kv_cache_gib`",
    "reasoning_parser": "write `reasoning_parser` without `engine`",
    "served_model_name": "leave it out: records carry the target's name",
    "per_request_spec_decode_metrics": "leave it out: statistics are always on",
    "generation_config": "write `temperature`, `top_p`, `top_k` and `max_tokens`",
    "override_generation_config": "write `temperature`, `top_p`, `top_k` and `max_tokens`",
}
"""Arguments that speccli gives itself, and what to write instead."""


@functools.cache
def installed_names() -> frozenset[str] | None:
    """The fields of the installed vLLM's `EngineArgs`; None where no vLLM is installed."""
    found = importlib.util.find_spec("vllm")
    if found is None or found.origin is None:
        return None
    source = Path(found.origin).parent / "engine" / "arg_utils.py"
    return names_in(source.read_text(encoding="utf-8")) if source.is_file() else None


def names_in(source: str) -> frozenset[str]:
    """The annotated fields of the class `EngineArgs` in that Python text."""
    return frozenset(
        field.target.id
        for statement in ast.parse(source).body
        if isinstance(statement, ast.ClassDef) and statement.name == "EngineArgs"
        for field in statement.body
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and field.target.id[0] != "_"
    )


def problem_with(name: str, known: Collection[str] | None) -> tuple[str, str] | None:
    """What is wrong with this key of `engine`, and what to write; None where nothing is known to be wrong."""
    if name in BY_SPECCLI:
        return f"`{name}` is not for `engine`: speccli gives it to vLLM itself", BY_SPECCLI[name]
    if known is None or name in known:
        return None
    nearest = difflib.get_close_matches(name.replace("-", "_"), known, n=1)
    hint = f"did you mean `{nearest[0]}`?" if nearest else "`vllm serve --help=all` lists them; write _ for -"
    return f"vLLM has no engine argument `{name}`", hint


def problem_with_value(name: str, value: Any) -> tuple[str, str] | None:
    """What is wrong with the value of an argument that speccli goes by itself."""
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    if name not in COUNTS or value is None or is_count:
        return None
    return f"`{name}` must be a whole number >= 1", "correct the value"
