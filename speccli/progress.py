"""How a batch is getting on: a bar on a terminal, a line now and then elsewhere, and a summary at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

import msgspec

from speccli.answer import Answer
from speccli.engine import Step
from speccli.stats import Acceptance, Latencies, Speculation
from speccli.view import View, acceptance_lines

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

LINE_EVERY_S = 10.0
BAR_EVERY_S = 0.1

Total = Callable[[], int | None]
"""How many lines there are in all; None while it is not known."""


class Tally:
    """Counts of a batch."""

    def __init__(self) -> None:
        self.done = 0
        self.failed = 0
        self.written_before = 0
        """Lines whose record an earlier run wrote."""
        self.first_problem: str | None = None
        self.acceptance = Acceptance()
        """Of the answers that have ended."""
        self.num_drafts = 0
        self.num_accepted_tokens = 0
        """So far, those of answers in flight included."""
        self.num_prompt_tokens = 0
        self.num_completion_tokens = 0
        self.first_token_s = Latencies()
        self.total_s = Latencies()
        self.began_s = time.monotonic()
        self.ended_s: float | None = None
        self.starting_s = 0.0

    def begin(self, starting_s: float) -> None:
        """The engine is ready: what is counted now takes its time from here."""
        self.starting_s = starting_s
        self.began_s = time.monotonic()

    def end(self) -> None:
        """The last step has come: closing the engine takes no part in the rates."""
        self.ended_s = time.monotonic()

    def add(self, step: Step) -> None:
        """Count what shows at once; the rest of the answer is counted when it has ended."""
        self.num_completion_tokens += len(step.token_ids)
        if step.num_draft_tokens:
            self.num_drafts += 1 if step.merged is None else step.merged.num_drafts
            self.num_accepted_tokens += step.num_accepted_tokens

    def succeed(self, answers: Sequence[Answer]) -> None:
        self.done += 1
        self.num_prompt_tokens += answers[0].num_prompt_tokens
        for answer in answers:
            self.acceptance = self.acceptance.plus(answer.acceptance)
            timing = answer.timing
            if timing.first_s is not None and timing.last_s is not None:
                self.first_token_s.add(timing.first_s - timing.started_s)
                self.total_s.add(timing.last_s - timing.started_s)

    def fail(self, problem: str) -> None:
        self.failed += 1
        self.first_problem = self.first_problem or problem

    @property
    def generating_s(self) -> float:
        return (time.monotonic() if self.ended_s is None else self.ended_s) - self.began_s

    @property
    def finished(self) -> int:
        return self.done + self.failed

    def __str__(self) -> str:
        elapsed = self.generating_s
        parts = [f"{self.done} done"]
        if self.failed:
            parts.append(f"{self.failed} failed")
        parts.append(f"{self.num_completion_tokens:,} tokens")
        if elapsed > 0 and self.num_completion_tokens:
            parts.append(f"{self.num_completion_tokens / elapsed:.1f} tokens/s")
            parts.append(f"{self.finished / elapsed:.2f} lines/s")
        if self.num_drafts:
            parts.append(f"acceptance length {1 + self.num_accepted_tokens / self.num_drafts:.2f}")
        return " · ".join(parts)


class Percentiles(msgspec.Struct, frozen=True):
    p50: float | None
    p90: float | None
    p99: float | None


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """A run that has ended, as `--summary` writes it."""

    schema_version: int = 1
    is_complete: bool
    lines_done: int
    lines_failed: int
    lines_written_before: int
    prompt_tokens: int
    completion_tokens: int
    starting_s: float
    generating_s: float
    completion_tokens_per_s: float | None
    lines_per_s: float | None
    time_to_first_token_s: Percentiles
    """From when the engine got the request: waiting for a slot is part of it."""
    total_s: Percentiles
    speculation: Speculation


def summary(tally: Tally, is_complete: bool) -> Summary:
    took = tally.generating_s
    return Summary(
        is_complete=is_complete,
        lines_done=tally.done,
        lines_failed=tally.failed,
        lines_written_before=tally.written_before,
        prompt_tokens=tally.num_prompt_tokens,
        completion_tokens=tally.num_completion_tokens,
        starting_s=round(tally.starting_s, 3),
        generating_s=round(took, 3),
        completion_tokens_per_s=round(tally.num_completion_tokens / took, 2) if took else None,
        lines_per_s=round(tally.finished / took, 3) if took else None,
        time_to_first_token_s=_percentiles(tally.first_token_s),
        total_s=_percentiles(tally.total_s),
        speculation=tally.acceptance.report(),
    )


def is_summary(content: bytes) -> bool:
    """Whether a file holds what `--summary` writes."""
    try:
        msgspec.json.decode(content, type=Summary)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _percentiles(latencies: Latencies) -> Percentiles:
    return Percentiles(latencies.percentile(0.5), latencies.percentile(0.9), latencies.percentile(0.99))


class Progress:
    """Shows a tally while it grows."""

    def __init__(self, view: View, total: Total, tally: Tally, is_speculative: bool = True) -> None:
        self._view = view
        self._total = total
        self._tally = tally
        self._is_speculative = is_speculative
        self._next_s = 0.0
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
            self._task = self._bar.add_task("", total=self._total(), completed=self._tally.written_before)
            self._bar.start()
        self._next_s = time.monotonic() + (BAR_EVERY_S if self._bar else LINE_EVERY_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, now: float) -> None:
        """Show the tally, if it is time to. `now` by `time.monotonic()`."""
        if now < self._next_s:
            return
        self._next_s = now + (BAR_EVERY_S if self._bar else LINE_EVERY_S)
        total = self._total()
        finished = self._tally.finished + self._tally.written_before
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, total=total, completed=finished, description=str(self._tally))
        else:
            of = "" if total is None else f" of {total}"
            self._view.narrate(f"{finished}{of} · {self._tally}{self._remaining(total)}")

    def _remaining(self, total: int | None) -> str:
        tally = self._tally
        if total is None or not tally.finished:
            return ""
        left_s = (total - tally.finished - tally.written_before) * tally.generating_s / tally.finished
        return f" · about {_duration(left_s)} left"

    def summary(self) -> None:
        """The closing lines."""
        if self._bar is not None:
            self._bar.stop()
        tally = self._tally
        self._view.narrate(str(tally))
        for line in acceptance_lines(tally.acceptance) if tally.num_completion_tokens and self._is_speculative else []:
            self._view.narrate(line)
        total_s = _percentiles(tally.total_s)
        if total_s.p50 is not None:
            self._view.narrate(
                f"seconds for a line (median, 90 %, 99 %): {_three(total_s)}, its first token {_three(_percentiles(tally.first_token_s))}"
                f" · starting {tally.starting_s:.1f} s, generating {tally.generating_s:.1f} s"
            )


def _three(figures: Percentiles) -> str:
    return " / ".join("-" if one is None else f"{one:.2f}" for one in (figures.p50, figures.p90, figures.p99))


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(max(seconds, 0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
