"""Stages: how far the start of an engine is, read from its log while that grows."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from speccli import paths

IMPORTS = "importing vLLM"

STAGES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), name)
    for pattern, name in (
        (r"Resolved architecture", "starting the engine's processes"),
        (r"Initializing a V1 LLM engine", "starting the workers"),
        (r"Starting to load model", "loading weights"),
        (r"Loading drafter model", "loading the speculator"),
        (r"Dynamo bytecode transform|Warming up model for the compilation|Compiling a graph", "compiling"),
        (r"(GPU|CPU) KV cache size|for KV cache on node", "making the KV cache"),
        (r"Capturing CUDA graphs", "capturing CUDA graphs"),
        (r"init engine \(profile, create kv cache", "last steps"),
    )
)
"""vLLM's own lines (0.32), and what begins with each."""

_SHARDS = re.compile(r"checkpoint shards:\s+(\d+)% Completed")


class Stage(msgspec.Struct, frozen=True):
    """One stage, and how long it took or has taken so far."""

    name: str
    seconds: float


class Stages:
    """Follows the log that the next engine of this process makes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._before = set(_logs())
        self._log: Path | None = None
        self._read_bytes = 0
        self._begun: list[tuple[str, float]] = [(IMPORTS, clock())]
        self._detail = ""

    @property
    def elapsed_s(self) -> float:
        return self._clock() - self._begun[0][1]

    def now(self) -> str:
        """The stage at this moment, for a line that is redrawn."""
        self._look()
        name, since_s = self._begun[-1]
        return f"{name}{self._detail} {self._clock() - since_s:.0f} s"

    def passed(self) -> list[Stage]:
        """The stages so far, the last one until now."""
        self._look()
        ends = [*(begun for _, begun in self._begun[1:]), self._clock()]
        return [Stage(name, end - begun) for (name, begun), end in zip(self._begun, ends, strict=True)]

    def _look(self) -> None:
        if self._log is None:
            self._log = next((log for log in _logs() if log not in self._before), None)
        if self._log is None:
            return
        with self._log.open("rb") as file:
            file.seek(self._read_bytes)
            new = file.read()
        complete = max(new.rfind(b"\n"), new.rfind(b"\r")) + 1
        self._read_bytes += complete
        for line in re.split("[\r\n]", new[:complete].decode(errors="replace")):
            self._take(line)

    def _take(self, line: str) -> None:
        shards = _SHARDS.search(line)
        if shards:
            self._detail = f" {shards[1]}%"
        for pattern, name in STAGES:
            if pattern.search(line) and name not in {known for known, _ in self._begun}:
                self._begun.append((name, self._clock()))
                self._detail = ""


def _logs() -> list[Path]:
    return sorted((paths.state_dir() / "logs").glob(f"engine-*-{os.getpid()}.log"))
