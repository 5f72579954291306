"""The commands of a conversation: their names, what follows them, and how a line is read."""

from __future__ import annotations

import difflib
import re
from typing import Literal

import msgspec

from speccli.errors import UsageError

Follows = Literal["nothing", "text", "setting", "file", "method", "target"]


class Command(msgspec.Struct, frozen=True):
    """One that can be typed."""

    name: str
    follows: Follows
    usage: str
    help: str


COMMANDS = (
    Command("help", "nothing", "", "this list"),
    Command("exit", "nothing", "", "leave; so do Ctrl-D, and Ctrl-C twice"),
    Command("retry", "nothing", "", "ask the last question again"),
    Command("undo", "nothing", "", "take back the last question and its answer"),
    Command("edit", "nothing", "", "change the last question in $EDITOR, and ask again"),
    Command("clear", "nothing", "", "forget all turns; the system prompt stays"),
    Command("system", "text", "[TEXT|default]", 'show or change the system prompt; "" empties it'),
    Command("set", "setting", "[NAME [VALUE]]", "show or change settings; VALUE `default` takes one back"),
    Command("stats", "nothing", "", "what speculation did: the last answer, and all of them"),
    Command("tokens", "nothing", "", "the last answer, coloured by who chose each token"),
    Command("think", "nothing", "", "show what the model thought before its last answer"),
    Command("compare", "method", "[METHOD [K]]", "the last question without speculation, or with another method"),
    Command("model", "target", "[NAME]", "go on with another target"),
    Command("method", "method", "[NAME [K]]", "go on with another method, or none"),
    Command("doctor", "nothing", "", "what these statistics mean, and what to do"),
    Command("context", "nothing", "", "how much of the context window is used"),
    Command("file", "file", "FILE [TEXT]", "send a file's content, with TEXT before it"),
    Command("save", "file", "[FILE]", "write the conversation: .json, or .md to read"),
    Command("load", "file", "FILE", "go on with a conversation that was saved"),
    Command("copy", "nothing", "", "copy the last answer to the clipboard"),
)

ALSO_CALLED = {
    "?": "help",
    "h": "help",
    "quit": "exit",
    "q": "exit",
    "bye": "exit",
    "regen": "retry",
    "regenerate": "retry",
    "reset": "clear",
    "new": "clear",
    "forget": "clear",
    "read": "file",
    "system-prompt": "system",
    "reasoning": "think",
}

LEAVING = ("exit", "quit")
"""Words that other programs take for /exit: alone, they are hardly meant for the model."""

BY_NAME = {command.name: command for command in COMMANDS}


class Said(msgspec.Struct, frozen=True):
    """A message for the model."""

    text: str


class Typed(msgspec.Struct, frozen=True):
    """A command and what follows it."""

    name: str
    argument: str = ""


def parse(line: str) -> Said | Typed:
    """Read what was typed. Raises `UsageError` for an unknown command, with the nearest name."""
    text = unquoted(line.strip())
    if line.strip().lower() in LEAVING:
        raise UsageError(f"`{text}` was not sent: /exit or Ctrl-D leaves")
    if not text.startswith("/") or text != line.strip():
        return Said(text)
    if text.startswith("//"):
        return Said(text[1:])
    word, _, argument = text[1:].partition(" ")
    name, newline, rest = word.partition("\n")
    argument = (rest + newline + argument if newline else argument).strip()
    command = BY_NAME.get(ALSO_CALLED.get(name.lower(), name.lower()))
    if command is None:
        raise UsageError(f"no command is called /{name}", _nearest(name))
    if command.follows == "nothing" and argument:
        raise UsageError(f"/{command.name} takes nothing behind it", f"type /{command.name} alone")
    return Typed(command.name, argument)


def _nearest(name: str) -> str:
    near = difflib.get_close_matches(name.lower(), [*BY_NAME, *ALSO_CALLED], n=1)
    guess = f"did you mean `/{ALSO_CALLED.get(near[0], near[0])}`?" if near else "/help shows them all."
    return f"{guess} A message that starts with / is typed with //"


def is_open(text: str) -> bool:
    '''Whether a """ at the start, or behind a command's name, has not been closed yet: then Enter begins a new line.'''
    said = re.sub(r"^/\S+\s+", "", text.lstrip())
    return said.startswith('"""') and (said.count('"""') < 2 or not said.rstrip().endswith('"""'))


def unquoted(text: str) -> str:
    '''The text between """ and """.'''
    if text.startswith('"""') and text.endswith('"""') and len(text) >= 6:
        return text[3:-3].strip("\n")
    return text
