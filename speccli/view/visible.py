"""Text that a terminal can be given: what would move its cursor, clear it or hide text is shown instead."""

from __future__ import annotations

import re

_LINE_END = re.compile(r"\r(?=\n|$)")
_CONTROLS = {code: chr(0x2400 + code) for code in range(0x20) if code not in (0x09, 0x0A)}
_CONTROLS |= {0x7F: "\u2421", **dict.fromkeys(range(0x80, 0xA0), "\ufffd")}


def visible(text: str) -> str:
    """Control characters as their pictures, but for newline and tab; a carriage return that ends a line is left out."""
    return text if text.isprintable() else _LINE_END.sub("", text).translate(_CONTROLS)
