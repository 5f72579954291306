"""What is measured, and what the process that measures is told and tells. All of it travels as JSON."""

from __future__ import annotations

import msgspec

from speccli.bench.prompts import Prompt
from speccli.plan import Plan
from speccli.stats import Acceptance

TokenIds = tuple[int, ...]


class Cell(msgspec.Struct, frozen=True, order=True):
    """One measurement: every prompt, at one batch size."""

    repeat: int
    """From 1 on. It comes first, so that a slow change of the machine meets every batch size alike."""
    batch_size: int


class Job(msgspec.Struct, frozen=True):
    """What one process is told: the engine to start, and the cells to measure on it, in this order."""

    plan: Plan
    prompts: tuple[Prompt, ...]
    cells: tuple[Cell, ...]
    follow_log: bool = False


class Percentiles(msgspec.Struct, frozen=True):
    p50: float
    p90: float
    p99: float


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What one category took in one cell."""

    num_requests: int
    num_tokens: int
    decode_tokens_per_s: float | None
    """Tokens after the first step of each answer, over the time in which at least one answer was growing."""
    time_to_first_token_s: Percentiles | None
    inter_token_latency_s: Percentiles | None
    """Of the pauses between two steps of one answer, whatever number of tokens a step brings: vLLM's definition."""
    acceptance: Acceptance


class CellResult(msgspec.Struct, frozen=True):
    cell: Cell
    took_s: float
    figures: dict[str, Figures]
    """By category, and of all together."""
    token_ids: dict[str, TokenIds] = {}
    """The answer to each prompt, kept of the first repeat to compare greedy output."""


class Ready(msgspec.Struct, frozen=True, tag="ready", tag_field="event"):
    """The engine has started."""

    start_s: float


class Finished(msgspec.Struct, frozen=True, tag="finished", tag_field="event"):
    result: CellResult


class Failed(msgspec.Struct, frozen=True, tag="failed", tag_field="event"):
    """Why the process measures no more."""

    message: str
    hint: str = ""
    is_refusal: bool = False
    """The engine runs, and a prompt was refused."""
    log: str | None = None
    """What an engine that failed has left, to be explained where the failure is shown."""


Event = Ready | Finished | Failed
