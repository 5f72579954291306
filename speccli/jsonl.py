"""Requests in, records out, one JSON object a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from speccli.answer import Answer
from speccli.engine import Message, Request
from speccli.errors import UsageError
from speccli.profile import Sampling


class Line(Sampling, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One input line: `prompt` or `messages`, an optional id, and sampling that goes over the command's."""

    id: str | int | None = None
    prompt: str | None = None
    messages: tuple[Message, ...] | None = None


class Source(msgspec.Struct, frozen=True):
    """Where a request stands in the input: the user's id, if any, and the line, counted from 1."""

    id: str | int | None
    line: int


class Entry(msgspec.Struct, frozen=True):
    """One input line, read: a request, or what is wrong with the line."""

    source: Source
    request: Request | None
    error: str | None = None


_decoder = msgspec.json.Decoder(Line)
_encoder = msgspec.json.Encoder()


def read(lines: Iterable[bytes], defaults: Sampling, system: str | None) -> Iterator[Entry]:
    """Read lines lazily. Blank lines are passed over; a bad line becomes an entry with an error, and stops nothing."""
    for number, line in enumerate(lines, 1):
        text = line.removeprefix(b"\xef\xbb\xbf").strip() if number == 1 else line.strip()
        if text:
            yield _entry(text, number, defaults, system)


def open_input(name: str, stdin: BinaryIO) -> BinaryIO:
    """The input file, or stdin for "-"."""
    if name == "-":
        return stdin
    try:
        return Path(name).open("rb")
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror}", "name a JSONL file, or - for stdin") from error


def count_lines(name: str) -> int | None:
    """How many lines a file has; None for stdin."""
    if name == "-":
        return None
    with Path(name).open("rb") as file:
        return sum(1 for line in file if line.strip())


def record(source: Source, answer: Answer) -> bytes:
    """One output line."""
    return _encoder.encode({"id": source.id, "line": source.line, **answer.to_dict()}) + b"\n"


def failure(source: Source, error: str) -> bytes:
    """The output line of a request that could not be answered."""
    return _encoder.encode({"id": source.id, "line": source.line, "error": error}) + b"\n"


def _entry(text: bytes, number: int, defaults: Sampling, system: str | None) -> Entry:
    try:
        line = _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return Entry(Source(_id_of(text), number), None, f"line {number}: {error}")
    source = Source(line.id, number)
    if (line.prompt is None) == (line.messages is None):
        return Entry(source, None, f"line {number}: give either `prompt` or `messages`")
    if not line.prompt and not line.messages:
        return Entry(source, None, f"line {number}: the prompt is empty")
    given = {key: getattr(line, key) for key in Sampling.__struct_fields__}
    messages = line.messages or (Message("user", line.prompt or ""),)
    if system and messages[0].role != "system":
        messages = (Message("system", system), *messages)
    return Entry(source, Request(id=str(number), messages=messages, sampling=Sampling(**given).over(defaults)))


def _id_of(text: bytes) -> str | int | None:
    """The id of a line that is otherwise wrong, so that its error record can be matched."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    found = value.get("id") if isinstance(value, dict) else None
    return found if isinstance(found, str | int) else None
