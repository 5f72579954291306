"""The real engine in one process, forked from a server that has imported vLLM once: a start costs seconds, not a minute.

The same seam, loader and runner as always; only where the processes are parted differs.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

import msgspec

from speccli.engine import Request, Step
from speccli.plan import Plan

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["vllm.v1.engine.llm_engine", "vllm.v1.worker.cpu_worker"])

ONE_PROCESS = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}


class Ran(msgspec.Struct, frozen=True):
    """What an engine did, and what it had."""

    steps: list[Step]
    kv_cache_tokens: int
    """As vLLM's log has it: "KV cache size"."""


def run(plan: Plan, requests: Sequence[Request]) -> Ran:
    """All steps of these requests, from an engine that lives for them alone."""
    with ProcessPoolExecutor(max_workers=1, mp_context=SERVER) as pool:
        return pool.submit(_ran, plan, list(requests)).result()


def generate(plan: Plan, requests: Sequence[Request]) -> list[Step]:
    return run(plan, requests).steps


def _ran(plan: Plan, requests: Sequence[Request]) -> Ran:
    from speccli.engine.vllm import VllmEngine

    in_one = msgspec.structs.replace(plan, environment={**plan.environment, **ONE_PROCESS})
    with VllmEngine(in_one) as engine:
        steps = list(engine.generate(requests))
        return Ran(steps, engine._engine.vllm_config.cache_config.kv_cache_size_tokens)
