"""The terminal. Its methods are the events of a run; answers go to stdout, everything said about them to stderr."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from speccli.answer import Answer
from speccli.source import described
from speccli.stats import Acceptance

if TYPE_CHECKING:
    from rich.console import Console

    from speccli.plan import Plan

GIB = 1024**3


class View:
    """What people see. `quiet` leaves out statistics and narration, never errors."""

    def __init__(self, quiet: bool = False, verbose: bool = False) -> None:
        self.quiet = quiet
        self.verbose = verbose
        self._console: Console | None = None
        self._ends_in_newline = True

    @property
    def console(self) -> Console:
        """stderr; made when something is first said there."""
        if self._console is None:
            from rich.console import Console  # 80 ms

            self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        return self._console

    def narrate(self, line: str) -> None:
        """Say what is happening."""
        if not self.quiet:
            self.console.print(line, style="dim", markup=False)

    def heading(self, line: str) -> None:
        """Begin a part of what is told."""
        if not self.quiet:
            self.console.print(f"\n{line}", style="bold", markup=False)

    def chosen(self, plan: Plan) -> None:
        """Say what will run, and why."""
        for line in chosen_lines(plan):
            self.narrate(line)

    @contextlib.contextmanager
    def starting(self) -> Iterator[None]:
        """While the engine starts: a spinner on a terminal, and how long it took."""
        started = time.monotonic()
        if not self.quiet and self.console.is_terminal:
            with self.console.status("starting the engine …", spinner="dots"):
                yield
        else:
            yield
        self.narrate(f"engine ready after {time.monotonic() - started:.1f} s")

    def text(self, text: str) -> None:
        """Stream a piece of an answer."""
        if text:
            self._ends_in_newline = text.endswith("\n")
            sys.stdout.write(text)
            sys.stdout.flush()

    def end_of_answer(self) -> None:
        if not self._ends_in_newline:
            self.text("\n")

    def statistics(self, answer: Answer) -> None:
        """The lines under an answer."""
        for line in statistics_lines(answer):
            self.narrate(line)

    def error(self, message: str, hint: str = "") -> None:
        self.console.print(f"error: {message}", style="red", markup=False)
        if hint:
            self.console.print(f"hint: {hint}", markup=False)


def chosen_lines(plan: Plan) -> list[str]:
    pairing = plan.pairing
    how = f"{pairing.method}, k={pairing.num_speculative_tokens}" if pairing.is_speculative else "plain decoding"
    if pairing.speculator_source is not None:
        how += f", speculator {described(pairing.speculator_source)}"
    arguments = plan.engine_arguments
    return [
        f"{pairing.target} · {how} · {plan.hardware.name}",
        f"why: {pairing.reason}",
        f"{arguments['dtype']} · weights {plan.weight_bytes / GIB:.2f} GiB · KV cache {plan.kv_cache_bytes / GIB:.1f} GiB "
        f"= {plan.kv_tokens:,} tokens · context {plan.max_model_len:,}",
    ]


def statistics_lines(answer: Answer) -> list[str]:
    timing = answer.timing
    parts = [f"{timing.num_tokens} token{'s' if timing.num_tokens != 1 else ''}"]
    if timing.decode_tokens_per_s is not None:
        parts.append(f"{timing.decode_tokens_per_s:.1f} tokens/s")
    if timing.time_to_first_token_s is not None:
        parts.append(f"first token {timing.time_to_first_token_s:.2f} s")
    if answer.finish_reason not in ("stop", None):
        parts.append(f"ended by {answer.finish_reason}")
    return [" · ".join(parts), *acceptance_lines(answer.acceptance)]


def acceptance_lines(acceptance: Acceptance) -> list[str]:
    if not acceptance.num_drafts:
        return ["nothing was drafted"]
    positions = "  ".join(f"{i}: {rate:.0%}" for i, rate in enumerate(acceptance.acceptance_rate_per_pos, 1))
    return [
        f"mean acceptance length {acceptance.mean_acceptance_length:.2f} · acceptance rate {acceptance.draft_acceptance_rate:.0%} "
        f"({acceptance.num_accepted_tokens} of {acceptance.num_draft_tokens} drafted, {acceptance.num_drafts} drafts)",
        f"accepted by position  {positions}",
    ]
