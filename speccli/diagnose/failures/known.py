"""Finds the kinds whose words stand in a line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from speccli.diagnose.failures.kind import Kind
from speccli.diagnose.failures.words import any_of


class Known:
    """The kinds, ready to be looked for. Made once: the words of all of them are one regular expression."""

    def __init__(self, kinds: Sequence[Kind]) -> None:
        self._kinds = kinds
        self._words = any_of(word for kind in kinds for word in _needed(kind))
        self._lines = frozenset(line for kind in kinds for line in kind.is_all)

    def in_line(self, lower: str) -> tuple[Kind, ...]:
        """The kinds whose words are in the line."""
        if not self._words.search(lower) and lower.strip() not in self._lines:
            return ()
        return tuple(kind for kind in self._kinds if _says(kind, lower))


def _needed(kind: Kind) -> Iterable[str]:
    """Of each way of saying it, the words that are least likely to stand in another line."""
    return (words if isinstance(words, str) else max(words, key=len) for words in kind.says)


def _says(kind: Kind, lower: str) -> bool:
    said = any(
        words in lower if isinstance(words, str) else all(word in lower for word in words) for words in kind.says
    )
    if not said and lower.strip() not in kind.is_all:
        return False
    return not any(words in lower for words in kind.unless)
