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


def generate(plan: Plan, requests: Sequence[Request]) -> list[Step]:
    """All steps of these requests, from an engine that lives for them alone."""
    with ProcessPoolExecutor(max_workers=1, mp_context=SERVER) as pool:
        return pool.submit(_generated, plan, list(requests)).result()


def _generated(plan: Plan, requests: Sequence[Request]) -> list[Step]:
    from speccli.engine.vllm import VllmEngine

    in_one = msgspec.structs.replace(plan, environment={**plan.environment, **ONE_PROCESS})
    with VllmEngine(in_one) as engine:
        return list(engine.generate(requests))
