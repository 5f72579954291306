"""The terminal. Its methods are the events of a run; answers go to stdout, everything said about them to stderr."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, TextIO

from speccli.answer import Answer
from speccli.chat.reasoning import Part
from speccli.chat.settings import Display
from speccli.errors import UsageError
from speccli.view import terminal
from speccli.view.lines import acceptance_lines, chosen_lines, one_line, statistics_lines, status_line
from speccli.view.visible import visible

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from speccli.plan import Plan

__all__ = ["View", "acceptance_lines", "chosen_lines", "one_line", "statistics_lines", "status_line"]


class Stream(Protocol):
    """An answer on its way to where people or programs read it."""

    def show(self, parts: Sequence[Part]) -> None: ...


class View:
    """What people see. `quiet` leaves out statistics and narration, never errors; `raw` formats nothing."""

    def __init__(self, quiet: bool = False, verbose: bool = False, raw: bool = False) -> None:
        self.quiet = quiet
        self.verbose = verbose
        self.raw = raw
        self._console: Console | None = None
        self._held: tuple[TextIO, TextIO] | None = None
        self._ends_in_newline = True

    @property
    def console(self) -> Console:
        """stderr; made when something is first said there."""
        if self._console is None:
            from speccli.view.console import console_on  # rich: 80 ms

            self._console = console_on(None if self._held is None else self._held[1])
        return self._console

    @property
    def out(self) -> TextIO:
        """stdout."""
        return sys.stdout if self._held is None else self._held[0]

    @property
    def terminal(self) -> TextIO | None:
        """Where a prompt or an editor can be shown."""
        return next((file for file in (self.out, self.console.file) if file.isatty()), None)  # type: ignore[return-value]

    @property
    def is_formatted(self) -> bool:
        """Whether answers are drawn: on a terminal that can, unless plain text is asked for."""
        return self.out.isatty() and not self.raw and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """While this lasts, what is shown goes to where stdout and stderr lead now, even if their descriptors are led elsewhere."""
        out, err = _duplicate(sys.stdout), _duplicate(sys.stderr)
        self._held, self._console = (out, err), None
        try:
            yield
        finally:
            for file, standard in ((out, sys.stdout), (err, sys.stderr)):
                file.flush()
                if file is not standard:
                    file.close()
            self._held, self._console = None, None

    def narrate(self, line: str) -> None:
        """Say what is happening."""
        if not self.quiet:
            self._print(line, "dim")

    def say(self, line: str) -> None:
        """Answer a command: said even if narration is not wanted."""
        self._print(line)

    def gap(self) -> None:
        """A blank line between a conversation's turns, on a terminal."""
        if self.console.is_terminal:
            self.console.print()

    def show(self, renderable: RenderableType) -> None:
        """Show a table or coloured text that was asked for."""
        self.console.print(renderable, soft_wrap=False, crop=False)

    def heading(self, line: str) -> None:
        """Begin a part of what is told."""
        if not self.quiet:
            self._print(f"\n{line}", "bold")

    def chosen(self, plan: Plan) -> None:
        """Say what will run, and why."""
        for line in chosen_lines(plan):
            self.narrate(line)

    @contextlib.contextmanager
    def starting(self) -> Iterator[None]:
        """While the engine starts: on a terminal its stages, and how long it took."""
        from speccli.engine.stages import Stages

        stages = Stages()
        with self.waiting(lambda: f"starting the engine: {stages.now()} · {stages.elapsed_s:.0f} s in all"):
            yield
        self.narrate(f"engine ready after {stages.elapsed_s:.1f} s")

    @contextlib.contextmanager
    def waiting(self, line: Callable[[], str]) -> Iterator[None]:
        """While something takes time: on a terminal a line that tells how far it is."""
        if self.quiet or self.verbose or not self.console.is_terminal or self.console.is_dumb_terminal:
            yield  # with `verbose` the engine's log scrolls by
            return
        from rich.live import Live
        from rich.spinner import Spinner

        spinner = Spinner("dots", text=_Fresh(line))
        # An engine that starts in another thread leads sys.stdout elsewhere and back: two must not do that at once.
        live = Live(spinner, console=self.console, transient=True, redirect_stdout=False, redirect_stderr=False)
        with terminal.silent_keyboard(self._pasting), live:
            yield

    @contextlib.contextmanager
    def answering(self, answer: Answer, display: Display, max_model_len: int) -> Iterator[Stream]:
        """While an answer comes. What was shown stays, however it ends."""
        if not self.is_formatted or not display.markdown:
            with terminal.silent_keyboard(self._pasting) if self.out.isatty() else contextlib.nullcontext():
                yield _Plain(self, display)
            self.end_of_answer()
            return
        from speccli.view.live import LiveAnswer
        from speccli.view.markdown import Renderer

        colours = self.console.color_system if not self.console.no_color else None
        began_s = time.monotonic()

        def status(columns: int) -> str:
            line = status_line(answer, time.monotonic() - began_s, max_model_len, columns)
            return "" if self.quiet or not display.stats else f"\x1b[2m{line}\x1b[0m"

        live = LiveAnswer(
            self.out,
            lambda: shutil.get_terminal_size(),
            Renderer(colours),
            status,
            display.reasoning,
            colours is not None,
        )
        with terminal.silent_keyboard(self._pasting):
            live.start()
            try:
                yield live
            finally:
                live.finish()

    def edited(self, text: str) -> str:
        """The text as the user's editor leaves it; as it was, where there is none, which is said."""
        try:
            return terminal.edit(text, self.terminal)
        except UsageError as error:
            self.error(error.message, error.hint)
            return text

    def text(self, text: str) -> None:
        """Stream a piece of an answer as it is."""
        if text:
            self._ends_in_newline = text.endswith("\n")
            self.out.write(text)
            self.out.flush()

    def end_of_answer(self) -> None:
        if not self._ends_in_newline:
            self.text("\n")

    def statistics(self, answer: Answer) -> None:
        """The lines under an answer."""
        for line in statistics_lines(answer):
            self.narrate(line)

    @property
    def _pasting(self) -> TextIO | None:
        """The terminal of a conversation; elsewhere keys typed meanwhile go to a shell, which asks for marks itself."""
        return None if self._held is None else self.terminal

    def _print(self, line: str, style: str = "") -> None:
        """On a terminal broken between words; in a file one line stays one line."""
        is_terminal = self.console.is_terminal
        self.console.print(visible(line) if is_terminal else line, style=style, soft_wrap=not is_terminal)

    def error(self, message: str, hint: str = "") -> None:
        self._print(f"error: {message}", "red")
        if hint:
            self._print(f"hint: {hint}")


class _Plain:
    """Text as it comes: the answer to stdout, what the model thinks to stderr."""

    def __init__(self, view: View, display: Display) -> None:
        self._view = view
        self._shows_reasoning = display.reasoning == "show" and not view.quiet
        self._is_thinking = False

    def show(self, parts: Sequence[Part]) -> None:
        for part in parts:
            if part.kind == "answer":
                if self._is_thinking:
                    self._view.console.print()
                    self._is_thinking = False
                self._view.text(visible(part.text) if self._view.out.isatty() else part.text)
            elif self._shows_reasoning:
                self._is_thinking = True
                self._view.console.print(part.text, style="dim", end="")


class _Fresh:
    """A line that is asked for each time it is drawn."""

    def __init__(self, line: Callable[[], str]) -> None:
        self._line = line

    def __rich__(self) -> str:
        return visible(self._line())


def _duplicate(file: TextIO) -> TextIO:
    """A file of its own on the same terminal; where it is no real file, as in a test, itself."""
    try:
        descriptor = os.dup(file.fileno())
    except (OSError, ValueError, AttributeError):
        return file
    return os.fdopen(descriptor, "w", encoding=file.encoding, errors=file.errors)
