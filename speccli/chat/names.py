"""File names as they are typed: one that holds blanks stands between quotation marks."""

from __future__ import annotations

from pathlib import Path

from speccli.errors import UsageError

MARKS = ('"', "'")


def name_and_text(argument: str) -> tuple[str, str]:
    """The name that comes first, and the text behind it, which may hold quotation marks of its own."""
    mark = argument[:1]
    if mark not in MARKS:
        name, *text = argument.split(maxsplit=1)
        return name, "".join(text)
    name, end, rest = argument[1:].partition(mark)
    if not end:
        raise UsageError(f"a quotation mark is missing: {argument}", f"close the name with {mark}")
    return name, rest.strip()


def only_name(argument: str) -> str:
    """A name with nothing behind it: then it may hold blanks without quotation marks."""
    if argument[:1] not in MARKS:
        return argument
    name, rest = name_and_text(argument)
    if rest:
        raise UsageError(f"too much behind the file {name}: {rest}", "name one file")
    return name


def begun(argument: str) -> str:
    """The name as far as it was typed."""
    return argument[1:] if argument[:1] in MARKS else argument


def quoted(name: str, is_whole: bool = True) -> str:
    """As it must be typed. One that goes on, such as a folder's, keeps its quotation mark open."""
    if name[:1] not in MARKS and not any(character.isspace() for character in name):
        return name
    mark = "'" if '"' in name else '"'
    return f"{mark}{name}{mark if is_whole else ''}"


def place(name: str) -> Path:
    """Where the file lies; `~` is the home folder."""
    try:
        return Path(name).expanduser()
    except RuntimeError as error:
        raise UsageError(f"cannot find {name}: whose home folder is meant?", "name the folder in full") from error
