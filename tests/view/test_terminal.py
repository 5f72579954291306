"""The clipboard and the editor."""

from __future__ import annotations

import base64
import io
import os
import stat
from pathlib import Path

import pytest

from speccli.errors import UsageError
from speccli.view import terminal as view_terminal
from speccli.view.terminal import BRACKETED, NOT_BRACKETED, copy, edit, silent_keyboard
from tests.view.screen import Screen


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with an empty PATH, in a terminal."""
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "TMUX", "VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def program(file: Path, script: str) -> None:
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_terminal_is_asked_to_copy() -> None:
    terminal = Terminal()
    assert copy("naïve", terminal) == "the terminal (OSC 52)"
    assert terminal.getvalue() == f"\x1b]52;c;{base64.b64encode('naïve'.encode()).decode()}\x07"


def test_tmux_is_asked_to_pass_it_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMUX", "/tmp/tmux")
    terminal = Terminal()
    copy("a", terminal)
    assert terminal.getvalue() == "\x1bPtmux;\x1b\x1b]52;c;YQ==\x07\x1b\\"


def test_a_clipboard_program_is_preferred(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(bare / "xclip", f"/bin/cat > {bare}/copied")
    assert copy("a", Terminal()) == "the terminal (OSC 52)"  # no display
    monkeypatch.setenv("DISPLAY", ":0")
    assert copy("naïve", Terminal()) == "xclip"
    assert (bare / "copied").read_text() == "naïve"


@pytest.mark.parametrize("script", ["#!/bin/sh\nexit 1\n", "#!/bin/sh\nexec /bin/sleep 60\n", "no program\n"])
def test_a_clipboard_program_that_fails_or_hangs_is_passed_over(
    bare: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(view_terminal, "CLIPBOARD_PATIENCE_S", 0.3)
    (bare / "xclip").write_text(script)
    (bare / "xclip").chmod(0o755)
    assert copy("a", Terminal()) == "the terminal (OSC 52)"


def test_without_a_terminal_there_is_no_clipboard() -> None:
    with pytest.raises(UsageError, match="there is no clipboard here"):
        copy("a", io.StringIO())


def test_what_is_too_long_for_the_terminal_is_refused() -> None:
    with pytest.raises(UsageError, match="too long for the terminal's clipboard: 100,000 bytes"):
        copy("a" * 100_000, Screen())


def test_the_editor_changes_the_text(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(bare / "ed it", "/bin/echo more >> $2")
    monkeypatch.setenv("EDITOR", f"'{bare}/ed it' --flag")
    assert edit("text\n") == "text\nmore"


@pytest.mark.parametrize(
    ("editor", "message"),
    [
        ("nowhere", "cannot run the editor nowhere"),
        ("/bin/false", "the editor /bin/false ended with 1"),
        ("", "there is no editor"),
        (" ", "there is no editor"),
        ("'vim", "the editor 'vim is no command: No closing quotation"),
    ],
)
def test_an_editor_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch, editor: str, message: str) -> None:
    monkeypatch.setenv("EDITOR", editor)
    with pytest.raises(UsageError, match=message):
        edit("text")


def test_the_editor_is_shown_on_the_terminal_wherever_stdout_leads(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(bare / "editor", "echo drawn; echo warned >&2")
    monkeypatch.setenv("EDITOR", str(bare / "editor"))
    with (bare / "screen").open("w") as screen:
        edit("text", screen)
    assert (bare / "screen").read_text() == "drawn\nwarned\n"


def test_what_an_editor_leaves_must_be_text(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(bare / "editor", r"printf '\377' > $1")
    monkeypatch.setenv("EDITOR", str(bare / "editor"))
    with pytest.raises(UsageError, match="left no UTF-8 text"):
        edit("text")


def test_what_is_pasted_while_keys_are_silent_stays_together(monkeypatch: pytest.MonkeyPatch) -> None:
    keyboard, terminal = os.openpty()
    told = io.StringIO()
    with os.fdopen(keyboard), os.fdopen(terminal) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        with silent_keyboard(told):
            assert told.getvalue() == BRACKETED
        assert told.getvalue() == BRACKETED + NOT_BRACKETED
        with silent_keyboard():
            pass
