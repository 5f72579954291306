"""A conversation on a real terminal: the editor, and pasting."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

ROOT = Path(__file__).parents[2]
CTRL_G = "\x07"

PROMPT, PROMPT_ENDS = "\x1b\\[\\?2004h", "\x1b\\[\\?2004l"
"""What is pasted is marked from here on, and no longer."""


class Chat:
    """Starts it, with an editor that says what it does."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.editor = folder / "editor"
        self.editor.write_text('#!/bin/sh\necho "EDITING"\necho "from the editor" > $1\n')
        self.editor.chmod(0o755)
        self.started: list[pexpect.spawn[str]] = []

    def start(self, start_s: float, step_s: float = 0.0) -> pexpect.spawn[str]:
        environment = {
            **os.environ, "TERM": "xterm", "NO_COLOR": "1", "PROMPT_TOOLKIT_NO_CPR": "1", "PYTHONPATH": str(ROOT),
            "EDITOR": str(self.editor), "VISUAL": "",
        }  # fmt: skip
        arguments = ["-m", "tests.commands.scripted_chat", str(start_s), str(step_s)]
        child = pexpect.spawn(
            sys.executable, arguments, env=environment, cwd=self._folder, encoding="utf-8", timeout=30, dimensions=(40, 120)
        )  # fmt: skip
        self.started.append(child)
        child.expect(PROMPT)
        return child


@pytest.fixture
def chat(tmp_path: Path) -> Iterator[Chat]:
    made = Chat(tmp_path)
    yield made
    for child in made.started:
        child.close(force=True)


@pytest.mark.parametrize("keys", [CTRL_G, "/edit\r"])
def test_the_editor_is_seen_while_the_engine_starts(chat: Chat, keys: str) -> None:
    child = chat.start(start_s=3.0)
    child.send(keys)
    child.expect("EDITING")
    child.expect("from the editor")
    if keys == CTRL_G:
        child.send("\r")
    child.expect("You said 'from the editor'")
    child.expect(PROMPT)
    child.sendeof()
    child.expect(pexpect.EOF)


def test_several_lines_pasted_while_an_answer_streams_are_one_message(chat: Chat) -> None:
    child = chat.start(start_s=0.0, step_s=0.7)
    child.send("Hello\r")
    child.expect(PROMPT_ENDS)
    child.expect(PROMPT)
    child.send("\x1b[200~one\rtwo\x1b[201~")
    child.expect("You said 'Hello'")
    child.expect(PROMPT)
    child.expect("one")
    child.send("\r")
    child.expect(r"You said 'one\\ntwo'")
