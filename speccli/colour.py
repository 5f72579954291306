"""Colour on a terminal, for text that goes to stdout as it is."""

from __future__ import annotations

import os
from typing import TextIO


def wants_colour(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, code: str, colour: bool) -> str:
    """`code` is of the terminal's "select graphic rendition", such as "1;31"; empty: as it is."""
    return f"\x1b[{code}m{text}\x1b[0m" if colour and code else text
