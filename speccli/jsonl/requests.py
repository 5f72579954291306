"""What one line asks for: speccli's own form, or a line of OpenAI's Batch API."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal, TypeVar

import msgspec

from speccli.engine import Message, Request
from speccli.jsonl.inputs import RawLine
from speccli.jsonl.line import Line, TextPart, Turn, Wrong
from speccli.jsonl.openai import BODY_KEYS, CHAT_URL, COMPLETIONS_URL, OpenAILine, own_form
from speccli.profile import Sampling

T = TypeVar("T")

Form = Literal["speccli", "openai"]
Kind = Literal["invalid_line", "duplicate_id", "refused"]

MAX_N = 128
"""As OpenAI has it. All of a line's answers are in memory until the last has come."""

STREAM_INTERVAL = 16
"""Tokens that a step of a batch may gather: nobody reads along, and each step told costs the front end some microseconds."""


class Source(msgspec.Struct, frozen=True, gc=False):
    """Where a request stands in the input. A line without an id of its own is called by its file and number."""

    id: str | int
    file: str
    line: int


class Problem(msgspec.Struct, frozen=True):
    """Why a line has no answer."""

    kind: Kind
    message: str


class Entry(msgspec.Struct, frozen=True):
    """One input line, read: a request, or what is wrong with the line."""

    source: Source
    request: Request | None
    problem: Problem | None = None
    form: Form = "speccli"
    url: str = CHAT_URL
    n: int = 1
    metadata: Any = None

    def requests(self) -> list[Request]:
        """`n` requests, each with a seed of its own, as vLLM's `n` makes them."""
        request = self.request
        if request is None or self.n == 1:
            return [] if request is None else [request]
        return [
            msgspec.structs.replace(request, id=f"{request.id}#{index}", sampling=_seeded(request.sampling, index))
            for index in range(self.n)
        ]


class Defaults(msgspec.Struct, frozen=True):
    """What holds for every line that does not say otherwise."""

    sampling: Sampling = Sampling()
    system: str | None = None
    truncate: bool = False


class _Peek(msgspec.Struct, frozen=True):
    """Enough of a line to know its form, and to name it where the rest is wrong."""

    id: Any = None
    custom_id: Any = None
    body: Any = None
    url: Any = None


class _Carried(msgspec.Struct, frozen=True):
    """What a record carries again, whatever else the line says."""

    metadata: Any = None
    body: Any = None


_line_decoder = msgspec.json.Decoder(Line)
_openai_decoder = msgspec.json.Decoder(OpenAILine)
_peek_decoder = msgspec.json.Decoder(_Peek)
_carried_decoder = msgspec.json.Decoder(_Carried)

SAMPLING_KEYS = Sampling.__struct_fields__
NO_SAMPLING = (None,) * len(SAMPLING_KEYS)


def read(raw_lines: Iterable[RawLine], defaults: Defaults) -> Iterator[Entry]:
    """Read lines lazily. A bad line becomes an entry with a problem, and stops nothing."""
    for raw in raw_lines:
        yield _entry(raw, defaults)


def _entry(raw: RawLine, defaults: Defaults) -> Entry:
    is_openai = b'"body"' in raw.text or b'"url"' in raw.text  # as a key or as a whole value; the decoder decides
    try:
        if raw.fault is not None:
            raise Wrong(raw.fault)
        if is_openai and _is_openai(_peek_decoder.decode(raw.text)):
            return _of_openai(raw, _openai_decoder.decode(raw.text), defaults)
        return _of_line(raw, _line_decoder.decode(raw.text), defaults)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, Wrong) as error:
        return _problem(raw, str(error) or "nested too deeply")


def _of_line(raw: RawLine, line: Line, defaults: Defaults) -> Entry:
    if line.id is not None and line.custom_id is not None:
        raise Wrong("give either `id` or `custom_id`")
    if (line.prompt is None) == (line.messages is None):
        raise Wrong("give either `prompt` or `messages`")
    if line.messages is None:
        if line.prompt is None or _is_blank(line.prompt):
            raise Wrong("the prompt is empty")
        messages: tuple[Message, ...] = (Message("user", line.prompt),)
    else:
        messages = _messages(line.messages)
    return _filled(raw, line, defaults, messages, None)


def _of_openai(raw: RawLine, line: OpenAILine, defaults: Defaults) -> Entry:
    wanted, prompt = own_form(line)
    return _filled(raw, wanted, defaults, _messages(wanted.messages or ()) if prompt is None else (), prompt, "openai")


def _filled(
    raw: RawLine,
    line: Line,
    defaults: Defaults,
    messages: tuple[Message, ...],
    prompt: str | None,
    form: Form = "speccli",
) -> Entry:
    source = Source(_id(raw, line), raw.name, raw.number)
    if messages and defaults.system and messages[0].role not in ("system", "developer"):
        messages = (Message("system", defaults.system), *messages)
    if line.n is not None and not 1 <= line.n <= MAX_N:
        raise Wrong(f"`n` must be at least 1 and at most {MAX_N}")
    request = Request(
        id=f"{raw.name}:{raw.number}",
        messages=messages,
        prompt=prompt,
        sampling=_sampling(line, defaults.sampling),
        chat_template_kwargs=line.chat_template_kwargs,
        truncate=defaults.truncate,
        stream_interval=STREAM_INTERVAL,
    )
    url = CHAT_URL if prompt is None else COMPLETIONS_URL
    return Entry(source, request, None, form, url, line.n or 1, line.metadata)


def _id(raw: RawLine, line: Line) -> str | int:
    given = line.custom_id if line.id is None else line.id
    if given == "":
        raise Wrong("the id is empty")
    return f"{raw.name}:{raw.number}" if given is None else given


def _sampling(line: Line, defaults: Sampling) -> Sampling:
    values = msgspec.structs.astuple(line)[: len(SAMPLING_KEYS)]  # those of the base come first
    if line.response_format is None and values == NO_SAMPLING:
        return defaults
    given = {key: value for key, value in zip(SAMPLING_KEYS, values, strict=True) if value is not None}
    if line.response_format is not None:
        if "structured_outputs" in given:
            raise Wrong("give either `response_format` or `structured_outputs`")
        given |= _structured(line.response_format)
    return msgspec.structs.replace(defaults, **given) if given else defaults


def _structured(response_format: dict[str, Any]) -> dict[str, Any]:
    match response_format:
        case {"type": "text"}:
            return {}
        case {"type": "json_object"}:
            return {"structured_outputs": {"json_object": True}}
        case {"type": "json_schema", "json_schema": {"schema": dict(schema)}}:
            return {"structured_outputs": {"json": schema}}
    raise Wrong("`response_format` must be of type text, json_object, or json_schema with a `json_schema.schema`")


def _messages(turns: tuple[Turn, ...]) -> tuple[Message, ...]:
    if not turns:
        raise Wrong("`messages` is empty")
    messages = tuple(
        Message(turn.role, turn.content if isinstance(turn.content, str) else _joined(turn.content), turn.name)
        for turn in turns
    )
    asked = [message.content for message in messages if message.role == "user"]
    if asked and all(_is_blank(text) for text in asked):
        raise Wrong("the prompt is empty")
    return messages


def _is_blank(text: str) -> bool:
    return not text or text.isspace()


def _joined(parts: tuple[TextPart, ...]) -> str:
    for part in parts:
        if part.type != "text" or part.text is None:
            raise Wrong(f"only parts of text can be answered, not {part.type!r}")
    return "".join(part.text or "" for part in parts)


def _is_openai(peek: _Peek) -> bool:
    return peek.body is not None or peek.url is not None


def _seeded(sampling: Sampling, index: int) -> Sampling:
    return sampling if sampling.seed is None else msgspec.structs.replace(sampling, seed=sampling.seed + index)


def _problem(raw: RawLine, reason: str) -> Entry:
    """An entry for a bad line, under its own id and with its metadata where they can be read."""
    peek = _read(_peek_decoder, raw.text) or _Peek()
    given = peek.custom_id if peek.id is None else peek.id
    has_id = isinstance(given, str | int) and not isinstance(given, bool) and given != ""
    return Entry(
        Source(given if has_id else f"{raw.name}:{raw.number}", raw.name, raw.number),
        None,
        Problem("invalid_line", f"{printable(raw.name)}:{raw.number}: {printable(_explained(reason))}"),
        "openai" if _is_openai(peek) else "speccli",
        metadata=_metadata(raw.text),
    )


def _metadata(text: bytes) -> Any:
    carried = _read(_carried_decoder, text)
    if carried is None:
        return None
    return carried.body.get("metadata") if isinstance(carried.body, dict) else carried.metadata


def _read(decoder: msgspec.json.Decoder[T], text: bytes) -> T | None:
    """What can be read of a bad line."""
    try:
        return decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _explained(reason: str) -> str:
    """The reason, with the nearest spelling of a key that is not known."""
    unknown = re.search(r"unknown field `(.*?)`", reason)
    if unknown is None:
        return reason
    known = (*Line.__struct_fields__, *OpenAILine.__struct_fields__, *BODY_KEYS, "role", "content")
    nearest = difflib.get_close_matches(unknown[1], known, n=1)
    return f"{reason}; did you mean `{nearest[0]}`?" if nearest else reason


def printable(text: str) -> str:
    """One line that a terminal shows as it is: what would move its cursor or colour it is escaped."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)
