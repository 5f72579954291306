"""One regular expression for many words, so that a line is walked through once however many there are."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

_END = ""


def any_of(words: Iterable[str]) -> re.Pattern[str]:
    """Finds where one of the words stands. As a tree of letters it takes a fraction of the time of a list."""
    tree: dict[str, Any] = {}
    for word in words:
        node = tree
        for letter in word:
            node = node.setdefault(letter, {})
        node[_END] = {}
    return re.compile(_pattern(tree))


def _pattern(node: dict[str, Any]) -> str:
    if _END in node:  # the shortest word is enough
        return ""
    letters: list[str] = []
    while len(node) == 1:
        [(letter, node)] = node.items()
        letters.append(re.escape(letter))
        if _END in node:
            return "".join(letters)
    branches = "|".join(re.escape(letter) + _pattern(below) for letter, below in sorted(node.items()))
    return "".join(letters) + f"(?:{branches})"
