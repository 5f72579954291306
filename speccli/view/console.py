"""The console that narration, tables and errors are written to. Imported when something is first said."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from speccli.view.visible import visible


class _Safe(Console):
    """On a terminal, text cannot command it, wherever that text came from."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        segments = super().render(renderable, options)
        return (_shown(segment) for segment in segments) if self.is_terminal else segments


def console_on(file: TextIO | None) -> Console:
    """A console on stderr, or on this file. What it is given is text: no markup, no names of emoji."""
    return _Safe(stderr=True, file=file, highlight=False, markup=False, emoji=False, soft_wrap=True)


def _shown(segment: Segment) -> Segment:
    return segment if segment.control else Segment(visible(segment.text), segment.style)
