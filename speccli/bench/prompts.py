"""The prompts of a bench: JSONL with `prompt` or `messages`, and an id, a `category` and sampling where wanted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from speccli import paths
from speccli.engine import Message, Request
from speccli.errors import UsageError
from speccli.profile import Sampling

WITHOUT_CATEGORY = "prompts"
POOLED = "all"
"""Stands for the prompts of all categories together."""


class Line(Sampling, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line: `prompt` or `messages`, and sampling of its own that goes over the command's."""

    id: str | int | None = None
    category: str = WITHOUT_CATEGORY
    prompt: str | None = None
    messages: tuple[Message, ...] | None = None


class Prompt(msgspec.Struct, frozen=True):
    id: str
    category: str
    request: Request


def built_in() -> Path:
    """The prompts that speccli ships."""
    return paths.profiles_dir() / "prompts" / "bench.jsonl"


def load(file: Path | None, sampling: Sampling, system: str | None, limit: int | None) -> tuple[Prompt, ...]:
    """The prompts of `file`, or the shipped ones, those of a category together; of each category the first `limit`.

    A bench compares the same work, so a line that cannot be read stops it.
    """
    name = file or built_in()
    try:
        lines = name.read_bytes().removeprefix(b"\xef\xbb\xbf").splitlines()
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror}", "name a JSONL file of prompts") from error
    grouped: dict[str, list[Prompt]] = {}
    for prompt in _prompts(name, lines, sampling, system):
        grouped.setdefault(prompt.category, []).append(prompt)
    if not grouped:
        raise UsageError(f"{name} holds no prompt", 'write one a line: {"id": "a", "category": "chat", "prompt": "…"}')
    return tuple(prompt for members in grouped.values() for prompt in members[:limit])


def _prompts(name: Path, lines: Iterable[bytes], sampling: Sampling, system: str | None) -> Iterator[Prompt]:
    decoder = msgspec.json.Decoder(Line)
    seen: set[str] = set()
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        try:
            line = decoder.decode(text)
            prompt = _prompt(line, number, sampling, system)
        except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
            raise UsageError(f"{name}, line {number}: {error}", "mend the line, or leave it out") from error
        if prompt.id in seen:
            raise UsageError(f"{name}, line {number}: the id {prompt.id!r} is there already", "give each its own")
        seen.add(prompt.id)
        yield prompt


def _prompt(line: Line, number: int, sampling: Sampling, system: str | None) -> Prompt:
    """Raises `ValueError` where the line does not make sense."""
    if (line.prompt is None) == (line.messages is None):
        raise ValueError("give either `prompt` or `messages`")
    messages = line.messages or (Message("user", line.prompt or ""),)
    if not any(message.content.strip() for message in messages):
        raise ValueError("the prompt is empty")
    if line.category in ("", POOLED):
        raise ValueError(f"no category can be called {line.category!r}")
    if system and messages[0].role != "system":
        messages = (Message("system", system), *messages)
    given = {key: value for key in Sampling.__struct_fields__ if (value := getattr(line, key)) is not None}
    chosen = msgspec.structs.replace(sampling, **given)
    identity = str(number if line.id is None else line.id)
    return Prompt(identity, line.category, Request(id=identity, messages=messages, sampling=chosen))
