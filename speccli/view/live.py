"""An answer on a terminal: what is finished scrolls away, the rest and a status line are drawn again as they change."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TextIO

from speccli.chat.reasoning import Kind, Part
from speccli.view.region import HIDE_CURSOR, SHOW_CURSOR, Region, Size
from speccli.view.visible import visible

if TYPE_CHECKING:
    from speccli.view.markdown import Renderer

DRAW_EVERY_S = 0.08
DRAWING_SHARE = 0.04
"""Of the time, at most this much goes into drawing: the longer that takes, the rarer it is done."""

MARGIN = 2
"""Columns left free, for characters that the terminal shows wider than we think."""

FOLDED_LINES = 4


class Flow(Protocol):
    """Text on its way, as lines: those that are final since the last call, and those that may change."""

    def add(self, text: str) -> None: ...

    def take(self, columns: int, is_over: bool = False) -> tuple[list[str], list[str]]: ...


class ReasoningFlow:
    """Dimmed plain text; folded, only its last lines show, and in the end how long it took."""

    def __init__(self, mode: Literal["show", "fold", "hide"], clock: Callable[[], float], is_coloured: bool) -> None:
        self._mode = mode
        self._clock = clock
        self._started_s = clock()
        self._marks = ("\x1b[2m", "\x1b[0m") if is_coloured else ("", "")
        self._text = ""

    def add(self, text: str) -> None:
        self._text += text

    def take(self, columns: int, is_over: bool = False) -> tuple[list[str], list[str]]:
        if self._mode == "show":
            return self._whole(columns, is_over)
        if self._mode == "hide":
            return [], []
        if is_over:
            return [self._dim(f"thought for {self._clock() - self._started_s:.1f} s · /think shows it")], []
        lines = _wrapped(self._text.strip(), columns)[-FOLDED_LINES:]
        return [], [self._dim(line) for line in lines]

    def _whole(self, columns: int, is_over: bool) -> tuple[list[str], list[str]]:
        end = len(self._text) if is_over else self._text.rfind("\n") + 1
        finished, self._text = self._text[:end], self._text[end:]
        finished = finished.rstrip() if is_over else finished.removesuffix("\n")
        final = [self._dim(line) for line in _wrapped(finished, columns)] if end and (finished or not is_over) else []
        return final, [self._dim(line) for line in _wrapped(self._text, columns)] if self._text else []

    def _dim(self, line: str) -> str:
        return f"{self._marks[0]}{line}{self._marks[1]}" if line else ""


class LiveAnswer:
    """Draws an answer while it grows. A thread draws, so that taking text costs the engine's loop nothing."""

    def __init__(
        self,
        out: TextIO,
        size: Size,
        renderer: Renderer,
        status: Callable[[int], str],
        reasoning: Literal["show", "fold", "hide"] = "show",
        is_coloured: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._out, self._size = out, size
        self._renderer = renderer
        self._status = status
        self._reasoning, self._is_coloured, self._clock = reasoning, is_coloured, clock
        self._region = Region(out, size)
        self._flow: Flow | None = None
        self._kind: Kind | None = None
        self._pending: list[str] = []
        self._num_frozen = 0
        self._has_lines = False
        self._columns = size()[0]
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._draw_now_and_then, name="draw-answer", daemon=True)

    def start(self) -> None:
        self._out.write(HIDE_CURSOR)
        self._thread.start()

    def show(self, parts: Sequence[Part]) -> None:
        """Take more text; it is drawn soon."""
        with self._lock:
            for part in parts:
                if part.kind != self._kind:
                    self._begin(part.kind)
                if self._flow is not None:
                    self._flow.add(visible(part.text))

    def finish(self) -> None:
        """Draw the last state, without the status line."""
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()
        try:
            self.draw(is_over=True)
        finally:
            self._out.write(SHOW_CURSOR)
            self._out.flush()
        if self._failure is not None:
            raise self._failure

    def draw(self, is_over: bool = False) -> None:
        """Bring the terminal up to date."""
        with self._lock:
            columns, rows = self._size()
            width = max(8, columns - MARGIN)
            if columns != self._columns:
                self._num_frozen = self._num_frozen * self._columns // columns  # about the same text, broken anew
                self._columns = columns
            final, tail = self._flow.take(width, is_over) if self._flow is not None else ([], [])
            final = self._unfrozen(final, tail)
            tail = [] if is_over else [*tail[self._num_frozen :], self._status(width)]
            spare = max(0, len(tail) - max(2, rows - 1))
            self._num_frozen += spare
            self._has_lines = self._has_lines or bool(final)
            final = [*self._pending, *final]
            self._pending = []
            self._region.draw([*final, *tail], len(final) + spare)

    def _unfrozen(self, final: list[str], tail: list[str]) -> list[str]:
        """Lines of a block higher than the terminal have scrolled away before the block was final."""
        if final:
            final, self._num_frozen = final[self._num_frozen :], 0
        self._num_frozen = min(self._num_frozen, len(tail))
        return final

    def _begin(self, kind: Kind) -> None:
        self._end_flow()
        self._kind = kind
        if kind == "reasoning":
            self._flow = ReasoningFlow(self._reasoning, self._clock, self._is_coloured)
        else:
            from speccli.view.markdown import MarkdownFlow

            self._flow = MarkdownFlow(self._renderer)

    def _end_flow(self) -> None:
        if self._flow is None:
            return
        final, _ = self._flow.take(max(8, self._columns - MARGIN), is_over=True)
        self._pending += final[self._num_frozen :]
        if self._has_lines or self._num_frozen or final:
            self._pending.append("")
        self._num_frozen, self._has_lines = 0, False

    def _draw_now_and_then(self) -> None:
        wait_s = DRAW_EVERY_S
        try:
            while not self._over.wait(wait_s):
                began_s = time.monotonic()
                self.draw()
                wait_s = max(DRAW_EVERY_S, (time.monotonic() - began_s) / DRAWING_SHARE)
        except BaseException as error:  # told by `finish`, in the thread that reads the answer
            self._failure = error


def _wrapped(text: str, columns: int) -> list[str]:
    from rich.cells import cell_len, chop_cells

    lines: list[str] = []
    for line in text.split("\n"):
        row = ""
        for word in line.expandtabs(4).split(" "):
            joined = f"{row} {word}" if row else word
            if cell_len(joined) <= columns:
                row = joined
                continue
            if row:
                lines.append(row)
            *full, row = chop_cells(word, columns) or [""]
            lines += full
        lines.append(row)
    return lines
