"""What is completed while one types."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from prompt_toolkit.application import Application
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from speccli.view.prompt import CommandCompleter, Prompt

COMPLETER = CommandCompleter(lambda: ["qwen3-8b", "smollm2-135m"])


def completed(text: str) -> list[str]:
    """The lines that may become of it."""
    document = Document(text, len(text))
    return [
        text[: len(text) + one.start_position] + one.text
        for one in COMPLETER.get_completions(document, CompleteEvent(completion_requested=True))
    ]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("/sta", ["/stats"]),
        ("/me", ["/method"]),
        ("/set temp", ["/set temperature"]),
        ("/set reasoning f", ["/set reasoning fold"]),
        ("/method eagle", ["/method eagle", "/method eagle3"]),
        ("/method ngram ", []),
        ("/compare no", ["/compare none"]),
        ("/model q", ["/model qwen3-8b"]),
        ("/stats ", []),
        ("Hello /st", []),
        ('"""\n/st', []),
    ],
)
def test_commands_and_their_values(text: str, lines: list[str]) -> None:
    assert completed(text) == lines


def test_every_command_is_offered_with_what_it_does() -> None:
    offered = list(COMPLETER.get_completions(Document("/", 1), CompleteEvent()))
    assert len(offered) == 20
    assert all(one.display_meta_text for one in offered)


def test_file_names(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    (tmp_path / "my notes.txt").touch()
    (tmp_path / "my folder").mkdir()
    assert completed(f"/file {tmp_path}/no") == [f"/file {tmp_path}/notes.txt"]
    spaced = [f'"{tmp_path}/my folder', f'"{tmp_path}/my notes.txt"']
    assert completed(f"/file {tmp_path}/my") == [f"/file {name}" for name in spaced]
    assert completed(f'/file "{tmp_path}/my n') == [f"/file {spaced[1]}"]
    assert completed(f"/save {tmp_path}/my n") == [f"/save {spaced[1]}"]
    assert completed(f"/file {tmp_path}/my n") == completed(f"/file {spaced[1]}") == []


def typed(keys: str, vi: bool = False) -> list[str]:
    """The messages that come of these keys, where the editor writes in capitals."""
    with create_pipe_input() as keyboard:
        prompt = Prompt(None, lambda: [], lambda: "", lambda: False, str.upper, DummyOutput(), keyboard)
        keyboard.send_text(keys)
        messages = []
        while True:
            try:
                messages.append(prompt.read(vi))
            except EOFError:
                return messages


CTRL_D, CTRL_R, ESCAPE = "\x04", "\x12", "\x1b"


@pytest.mark.parametrize(("keys", "vi"), [("\x07", False), ("\x18\x05", False), ("\x07", True), (f"{ESCAPE}v", True)])
def test_the_editor_changes_what_was_typed(keys: str, vi: bool) -> None:
    with create_pipe_input() as keyboard:
        prompt = Prompt(None, lambda: [], lambda: "", lambda: False, lambda text: f"{text}!", DummyOutput(), keyboard)
        threading.Timer(0.7, lambda: keyboard.send_text("\r")).start()
        keyboard.send_text(f"hello{keys}")
        assert prompt.read(vi) == "hello!"


def test_escape_and_enter_send_in_vi_mode_and_begin_a_line_elsewhere() -> None:
    assert typed(f"one{ESCAPE}\r{CTRL_D}", vi=True) == ["one"]
    assert typed(f"one{ESCAPE}\rtwo\r{CTRL_D}") == ["one\ntwo"]


def test_what_was_typed_before_is_found() -> None:
    with create_pipe_input() as keyboard:
        prompt = Prompt(None, lambda: [], lambda: "", lambda: False, str.upper, DummyOutput(), keyboard)
        keyboard.send_text("first\rsecond\r")
        assert [prompt.read(), prompt.read()] == ["first", "second"]
        threading.Timer(0.3, lambda: keyboard.send_text(f"{CTRL_R}fir\r\r")).start()  # when the history is there
        assert prompt.read() == "first"


def test_ctrl_z_suspends(monkeypatch: pytest.MonkeyPatch) -> None:
    suspended: list[bool] = []
    monkeypatch.setattr(Application, "suspend_to_background", lambda self: suspended.append(True))
    assert typed(f"one\x1a\r{CTRL_D}") == ["one"]
    assert suspended == [True]
