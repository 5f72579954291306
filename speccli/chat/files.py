"""Conversations on disk: JSON to go on with, Markdown to read."""

from __future__ import annotations

import stat
from pathlib import Path

import msgspec

from speccli import whole
from speccli.chat.conversation import Conversation
from speccli.chat.turn import Turn
from speccli.chat.words import counted
from speccli.errors import UsageError
from speccli.profile import Sampling

SCHEMA_VERSION = 1

MAX_BYTES_PER_TOKEN = 64
"""A text that takes more bytes for each token of the context window cannot fit: a token is a few characters."""


class Saved(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a saved conversation holds."""

    schema_version: int
    conversation: Conversation
    sampling: Sampling = Sampling()
    """What was set in the conversation itself."""


class _Versioned(msgspec.Struct):
    schema_version: int


def save(file: Path, conversation: Conversation, sampling: Sampling) -> None:
    """Write it whole or not at all. `.md` gives Markdown."""
    if file.suffix.lower() in (".md", ".markdown"):
        content = to_markdown(conversation).encode()
    else:
        content = msgspec.json.format(msgspec.json.encode(Saved(SCHEMA_VERSION, conversation, sampling)), indent=1)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        whole.write(file, content)
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}", "name another file") from error


def load(file: Path) -> Saved:
    """Read what `save` wrote. Raises `UsageError` where that cannot be."""
    content = _read(file)
    try:
        version = msgspec.json.decode(content, type=_Versioned).schema_version
        if version != SCHEMA_VERSION:
            raise UsageError(
                f"{file} has schema_version {version}; this speccli reads {SCHEMA_VERSION}",
                "load it with the speccli that saved it, or a newer one",
            )
        return msgspec.json.decode(content, type=Saved)
    except msgspec.DecodeError as error:
        raise UsageError(f"{file} is no saved conversation: {error}", "name a .json that /save wrote") from error


def read_text(file: Path, max_model_len: int) -> str:
    """A file to put into a message that a window of so many tokens may hold."""
    size = _size(file)
    if size > MAX_BYTES_PER_TOKEN * max_model_len:
        raise UsageError(
            f"{file} is too large: {size:,} bytes, and the context holds {max_model_len:,} tokens", "send a part of it"
        )
    content = _read(file)
    try:
        return content.decode("utf-8").strip("\n")
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is not UTF-8 text", "send a text file") from error


def with_file(file: Path, text: str, max_model_len: int) -> str:
    """The message that carries the file: the text first, then the content, fenced and named."""
    content = read_text(file, max_model_len)
    fence = "```"
    while fence in content:
        fence += "`"
    return "\n\n".join(part for part in (text, f"{file.name}:\n{fence}\n{content}\n{fence}") if part)


def to_markdown(conversation: Conversation) -> str:
    """A conversation to read; what ran and how fast stands under each answer."""
    quoted = [f"> {line}".rstrip() for line in (conversation.system or "").strip("\n").split("\n")]
    blocks = ["\n".join(quoted)] if conversation.system else []
    for turn in conversation.turns:
        blocks += [f"## {_heading(turn.user)}", *_rest(turn.user), *_thought(turn), turn.answer.strip(), _note(turn)]
    return "\n\n".join(blocks) + "\n"


def _heading(text: str) -> str:
    return text.strip().partition("\n")[0]


def _rest(text: str) -> list[str]:
    rest = text.strip().partition("\n")[2].strip()
    return [rest] if rest else []


def _thought(turn: Turn) -> list[str]:
    if not turn.reasoning:
        return []
    return [f"<details><summary>Reasoning</summary>\n\n{turn.reasoning}\n\n</details>"]


def _note(turn: Turn) -> str:
    parts = [str(turn.run), counted(turn.timing.num_tokens, "token")]
    if turn.timing.decode_tokens_per_s is not None:
        parts.append(f"{turn.timing.decode_tokens_per_s:.1f} tokens/s")
    if turn.acceptance.num_drafts:
        parts.append(f"mean acceptance length {turn.acceptance.mean_acceptance_length:.2f}")
    return f"*{' · '.join(parts)}*"


def _size(file: Path) -> int:
    """Of a regular file: a device or a pipe may never end."""
    try:
        about = file.expanduser().stat()
    except OSError as error:
        raise _unreadable(file, error) from error
    if not stat.S_ISREG(about.st_mode):
        raise UsageError(f"cannot read {file}: it is no regular file", "name a file")
    return about.st_size


def _read(file: Path) -> bytes:
    try:
        return file.expanduser().read_bytes()
    except OSError as error:
        raise _unreadable(file, error) from error


def _unreadable(file: Path, error: OSError) -> UsageError:
    return UsageError(f"cannot read {file}: {error.strerror}", "check the name; one with blanks goes between quotes")
