"""What a known fault looks like in a log, and what is said of it: plain data, filled in by `kinds/`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from speccli.diagnose import Severity
from speccli.diagnose.failures.context import Context

Said = str | tuple[str, ...]
"""Words of a line, in lower case; of several, all have to be in it."""

Value = int | float | str
Figures = dict[str, Value]
"""What the log says of sizes and names. Keys end in their unit: `_gib`, `_tokens`."""

Settings = dict[str, Value | bool | None]
"""vLLM's names with the values to set; None: leave it out."""

Phase = Literal["", "starting", "loading", "loading-draft", "profiling", "kv-cache", "graphs", "ready"]

SPECIFIC, GENERAL, AFTERMATH = 3, 2, 1
"""How much a kind explains. An aftermath is the cause only where nothing better was found."""


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of a fault, for the figures at hand. Empty: what the kind says anyway."""

    cause: str = ""
    fix: str = ""
    settings: Settings = {}


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """One known fault. It is recognised by words that its wordings share, not by a whole sentence."""

    id: str
    title: str
    says: tuple[Said, ...]
    """Ways of saying it: one is enough."""
    is_all: tuple[str, ...] = ()
    """Whole lines that say it, in lower case."""
    unless: tuple[str, ...] = ()
    """Words that rule it out."""
    near: tuple[str, ...] = ()
    """Words of which one has to stand in the line or shortly above it."""
    frames: tuple[str, ...] = ()
    """Parts of a traceback, of which one has to stand above the line, or in it."""
    phases: tuple[Phase, ...] = ()
    """What the engine was doing, where no traceback tells."""
    figures: tuple[str, ...] = ()
    """Regular expressions with named groups, looked for in the line and in those around it."""
    cause: str
    fix: str
    advise: Callable[[Figures, Context], Advice] | None = None
    """A cause and a fix for the figures of the log, where there are any."""
    severity: Severity = "error"
    """error: the engine did not start, or died. warning: requests failed, or speculation is in vain."""
    rank: int = SPECIFIC
    in_warnings: bool = False
    """It is told by lines of level WARNING too."""
