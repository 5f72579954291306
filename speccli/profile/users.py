"""Changing a profile of the user's: one key at a time, everything else stays as it stands."""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import Any

import msgspec

from speccli import whole
from speccli.errors import UsageError
from speccli.profile import document

Changes = dict[str, Any]
"""By key; None takes a key out. A table is changed key by key in the same way."""


def write(file: Path, changes: Changes) -> str:
    """Change the file at once or not at all, and return the difference. Raises `UsageError` where it cannot be edited."""
    name = document.shown(file)
    old = _text(file)
    new = edited(old, changes, name)
    if new != old:
        try:
            _replace(file, new)
        except OSError as error:
            raise UsageError(
                f"cannot write {name}: {error.strerror}", f"write {_told(changes)} into a profile of your own"
            ) from error
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), name, name, lineterm="")
    return "".join(f"{line}\n" for line in lines)


def edited(text: str, changes: Changes, name: str) -> str:
    """The text with these keys set; comments, order and other keys stay."""
    before = document.parse(text.encode(), name).convert(dict[str, Any])
    lines = text.splitlines()
    for key, value in changes.items():
        lines = _set_table(lines, key, value) if isinstance(value, dict) else _set(lines, key, value)
    result = "".join(f"{line}\n" for line in lines)
    if not _says(result, _wanted(before, changes), name):
        raise UsageError(
            f"{name} is written in a way that cannot be changed safely", f"write {_told(changes)} into it yourself"
        )
    return result


def _text(file: Path) -> str:
    """What the file says; nothing where there is none."""
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise UsageError(
            f"cannot read {document.shown(file)}: {error.strerror}", "put a file there that can be read"
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{document.shown(file)} is not in UTF-8", "save it as UTF-8: `iconv -f UTF-16 -t UTF-8`"
        ) from error


def _told(changes: Changes) -> str:
    return ", ".join(f"`{key}: {value}`" for key, value in changes.items() if value is not None)


def _says(text: str, wanted: Changes, name: str) -> bool:
    try:
        return document.parse(text.encode(), name).convert(dict[str, Any]) == wanted
    except UsageError:
        return False


def _wanted(before: Changes, changes: Changes) -> Changes:
    after = dict(before)
    for key, value in changes.items():
        if value is None:
            after.pop(key, None)
        elif isinstance(value, dict):
            after[key] = {**(before.get(key) or {}), **value}
        else:
            after[key] = value
    return after


def _set(lines: list[str], key: str, value: Any, indent: str = "") -> list[str]:
    start, end = _place(lines, key, indent)
    new = [] if value is None else [f"{indent}{key}: {_plain(value)}"]
    return [*lines[:start], *new, *lines[end:]]


def _set_table(lines: list[str], key: str, values: Changes) -> list[str]:
    start, end = _place(lines, key, "")
    inside = lines[start + 1 : end]
    indent = next((re.match(r"\s*", line)[0] for line in inside if line.strip()), "  ")  # type: ignore[index]
    for name, value in values.items():
        inside = _set(inside, name, value, indent)
    return [*lines[:start], lines[start] if start < end else f"{key}:", *inside, *lines[end:]]


def _place(lines: list[str], key: str, indent: str) -> tuple[int, int]:
    """The lines of that key with all that is indented below it; empty, at the end, where it is not there."""
    starts = [i for i, line in enumerate(lines) if re.match(rf"{indent}['\"]?{re.escape(key)}['\"]?\s*:", line)]
    if not starts:
        return len(lines), len(lines)
    end = starts[0] + 1
    while end < len(lines) and re.match(rf"{indent}\s+\S", lines[end]):
        end += 1
    return starts[0], end


def _plain(value: Any) -> str:
    """A scalar as YAML has it; text is quoted where it would be read as something else."""
    return msgspec.yaml.encode(value).decode().strip().removesuffix("...").strip()


def _replace(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    target = file.resolve()
    mode = target.stat().st_mode & 0o777 if target.exists() else 0o600
    whole.write(target, text.encode(), mode)
