"""Plans, prompts and results to try the bench on: nothing is fetched, nothing is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from speccli.bench.cells import Cell, CellResult, Figures, Percentiles
from speccli.bench.prompts import POOLED, Prompt
from speccli.checkpoint import Checkpoint
from speccli.engine import Message, Request
from speccli.errors import UsageError
from speccli.hardware import Hardware
from speccli.pairing import Pairing
from speccli.plan import Plan
from speccli.profile import Profile, Sampling, Settings
from speccli.source import FolderSource
from speccli.stats import Acceptance

GREEDY = Sampling(temperature=0.0, max_tokens=16)
NOTHING_ACCEPTED = Acceptance()


def plan_of(settings: Settings) -> Plan:
    """What `prepare` would make of these settings for a tiny target; `eagle` cannot be had."""
    method = settings.method or "ngram"
    if method == "eagle":
        raise UsageError("method eagle needs a speculator, and no pairing has one for tiny", "name one")
    k = 0 if method == "none" else settings.num_speculative_tokens or 4
    arguments: dict[str, Any] = {
        "model": "/tiny",
        "dtype": settings.dtype or "float32",
        "max_num_seqs": settings.max_num_seqs,
    }
    if k:
        arguments["speculative_config"] = {"method": method, "num_speculative_tokens": k}
    return Plan(
        profile=Profile(
            Settings(temperature=settings.temperature or 0.0, max_tokens=settings.max_tokens or 16),
            {"temperature": "command", "max_tokens": "command"},
        ),
        hardware=Hardware(kind="cpu", name="cpu", source="named"),
        pairing=Pairing("tiny", FolderSource("/tiny"), method, k, "written for a test"),
        target=Checkpoint("tiny", "/tiny", "float32", 2**20, 256, 1024),
        speculator=None,
        max_model_len=1024,
        weight_bytes=2**20,
        kv_cache_bytes=2**30,
        kv_tokens=4096,
        engine_arguments={**arguments, **(settings.engine or {})},
        environment={"VLLM_CPU_KVCACHE_SPACE": "1"},
    )


def prompt(name: str, category: str = "chat", sampling: Sampling = GREEDY) -> Prompt:
    return Prompt(name, category, Request(id=name, messages=(Message("user", name),), sampling=sampling))


def figures(speed: float | None, acceptance: Acceptance = NOTHING_ACCEPTED) -> Figures:
    return Figures(
        num_requests=2,
        num_tokens=20,
        decode_tokens_per_s=speed,
        time_to_first_token_s=Percentiles(0.1, 0.2, 0.3),
        inter_token_latency_s=Percentiles(0.02, 0.03, 0.04),
        acceptance=acceptance,
    )


ACCEPTED = Acceptance(num_drafts=10, num_draft_tokens=20, num_accepted_tokens=7, num_accepted_tokens_per_pos=(5, 2))


def results(
    *speeds: float,
    batch_size: int = 1,
    acceptance: Acceptance = NOTHING_ACCEPTED,
    tokens: tuple[int, ...] = (1, 2, 3),
) -> list[CellResult]:
    """A result for each repeat, of two categories."""
    return [
        CellResult(
            Cell(number, batch_size),
            took_s=10.0,
            figures={
                POOLED: figures(speed, acceptance),
                "chat": figures(speed * 2, acceptance),
                "code": figures(speed / 2),
            },
            token_ids={"a": (1, 2, 3), "b": tokens} if number == 1 else {},
        )
        for number, speed in enumerate(speeds, 1)
    ]


def write(folder: Path, *lines: str) -> Path:
    file = folder / "prompts.jsonl"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file
