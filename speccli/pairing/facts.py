"""What a pairing file says of a config.json: values of a kind that sizes can be reckoned from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

COUNTS = ("max_position_embeddings", "sliding_window")
START_OF_COUNTS = "num_"
ENDS_OF_COUNTS = ("_size", "_dim", "_heads")
END_OF_TABLES = "_config"
OF_LANGUAGE = ("text_config", "transformer_layer_config")
"""Those tables that describe what generates text; others have words of their own."""

Wrong = tuple[tuple[str, ...], str]
"""Where, and what must stand there."""


def wrong_kinds(facts: Mapping[str, Any]) -> Iterator[Wrong]:
    """Keys whose values are of another kind than in any config.json. What is left open is null."""
    for key, value in facts.items():
        if value is None:
            continue
        if key.endswith(END_OF_TABLES):
            if not isinstance(value, dict):
                yield (key,), "a mapping"
            elif key in OF_LANGUAGE:
                yield from (((key, *path), expected) for path, expected in wrong_kinds(value))
        elif _is_count(key) and not _are_counts(value, may_be_list=key != "max_position_embeddings"):
            yield (key,), "a whole number >= 0"


def _is_count(key: str) -> bool:
    return key in COUNTS or key.startswith(START_OF_COUNTS) or key.endswith(ENDS_OF_COUNTS)


def _are_counts(value: Any, *, may_be_list: bool) -> bool:
    """Some models have one for each layer."""
    if isinstance(value, list) and may_be_list:
        return all(_are_counts(one, may_be_list=False) for one in value)
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
