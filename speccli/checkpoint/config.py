"""Values out of a config.json, which anyone may have written: what is of another type counts as not told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Config = Mapping[str, Any]


def integer(config: Config, key: str) -> int | None:
    value = config.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def positive(config: Config, key: str) -> int | None:
    value = integer(config, key)
    return value if value is not None and value > 0 else None


def integers(config: Config, key: str) -> list[int] | None:
    """None for a list that is empty or holds anything else."""
    value = config.get(key)
    if not isinstance(value, list) or not value:
        return None
    return value if all(isinstance(part, int) and not isinstance(part, bool) for part in value) else None


def table(config: Config, key: str) -> dict[str, Any]:
    value = config.get(key)
    return value if isinstance(value, dict) else {}


def words(config: Config, key: str) -> list[str]:
    value = config.get(key)
    return [part for part in value if isinstance(part, str)] if isinstance(value, list) else []


def word(config: Config, key: str) -> str | None:
    value = config.get(key)
    return value if isinstance(value, str) else None
