"""How a batch is getting on: a bar on a terminal, a line now and then elsewhere, and a summary at the end."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from speccli.engine import Step
from speccli.stats import Acceptance, Timing
from speccli.view import View, acceptance_lines

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

LINE_EVERY_S = 10.0
BAR_EVERY_S = 0.1


class Tally:
    """Counts of a batch."""

    def __init__(self) -> None:
        self.done = 0
        self.failed = 0
        self.acceptance = Acceptance()
        self.timing = Timing(time.monotonic())

    def add(self, step: Step) -> None:
        self.acceptance = self.acceptance.after(step)
        self.timing = self.timing.after(step)

    def succeed(self) -> None:
        self.done += 1

    def fail(self) -> None:
        self.failed += 1

    def __str__(self) -> str:
        parts = [f"{self.done} done"]
        if self.failed:
            parts.append(f"{self.failed} failed")
        parts.append(f"{self.timing.num_tokens:,} tokens")
        if self.timing.tokens_per_s is not None:
            parts.append(f"{self.timing.tokens_per_s:.1f} tokens/s")
        if self.acceptance.num_drafts:
            parts.append(f"acceptance length {self.acceptance.mean_acceptance_length:.2f}")
        return " · ".join(parts)


class Progress:
    """Shows a tally while it grows."""

    def __init__(self, view: View, total: int | None, tally: Tally) -> None:
        self._view = view
        self._total = total
        self._tally = tally
        self._shown_s = time.monotonic()
        self._bar: RichProgress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        if not self._view.quiet and self._view.console.is_terminal:
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
            from rich.progress import Progress as RichProgress

            self._bar = RichProgress(
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.description}"),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                console=self._view.console,
                transient=True,
            )
            self._task = self._bar.add_task("", total=self._total)
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self) -> None:
        now = time.monotonic()
        if now - self._shown_s < (BAR_EVERY_S if self._bar else LINE_EVERY_S):
            return
        self._shown_s = now
        finished = self._tally.done + self._tally.failed
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=finished, description=str(self._tally))
        else:
            of = f" of {self._total}" if self._total is not None else ""
            self._view.narrate(f"{finished}{of} · {self._tally}")

    def summary(self) -> None:
        """The closing lines."""
        if self._bar is not None:
            self._bar.stop()
        self._view.narrate(str(self._tally))
        for line in acceptance_lines(self._tally.acceptance):
            self._view.narrate(line)
        if self._tally.failed:
            self._view.narrate('failed lines have an "error" in the output')
