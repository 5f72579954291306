"""What is completed while one types."""

from __future__ import annotations

from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from speccli.view.prompt import CommandCompleter

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
    assert completed(f"/file {tmp_path}/no") == [f"/file {tmp_path}/notes.txt"]
