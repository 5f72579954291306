"""Figures taken from the words of a log: sizes in GiB, counts, names."""

from __future__ import annotations

import re
from collections.abc import Iterable

from speccli.diagnose.failures.kind import Figures, Kind, Value

_UNITS_GIB = {"": 1.0, "K": 2.0**-20, "M": 2.0**-10, "G": 1.0, "T": 2.0**10}
_SIZE = re.compile(r"(-?\d+(?:\.\d+)?) ?([KMGT]?)")


def figures_of(kind: Kind, texts: Iterable[str]) -> Figures:
    """Every named group of the kind's expressions; of several texts, the first that has one counts."""
    found: Figures = {}
    for text in texts:
        for pattern in kind.figures:
            if match := re.search(pattern, text):
                for name, value in match.groupdict().items():
                    if value is not None and name not in found and (read := _value(name, value)) is not None:
                        found[name] = read
    return found


def _value(name: str, text: str) -> Value | None:
    if name.endswith("_gib"):
        return _gib(text)
    try:
        if name.endswith(("_name", "_text")):
            return text
        return float(text) if "." in text else int(text.replace(",", ""))
    except ValueError:
        return text


def _gib(text: str) -> float | None:
    """ "72.00 MiB" is 0.0703; a bare number is GiB already."""
    match = _SIZE.match(text)
    return round(float(match[1]) * _UNITS_GIB[match[2]], 4) if match else None


def number(figures: Figures, name: str) -> float | None:
    value = figures.get(name)
    return value if isinstance(value, int | float) else None


def whole(figures: Figures, name: str) -> int | None:
    value = number(figures, name)
    return None if value is None else int(value)


def gib(value: float) -> str:
    return f"{value:.2f} GiB" if abs(value) >= 0.1 else f"{value * 1024:.0f} MiB"


def rounded_down(tokens: float, to: int = 16) -> int:
    """To whole blocks of the KV cache."""
    return max(int(tokens) // to * to, min(int(tokens), to))
