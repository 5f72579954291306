"""What a terminal is asked for beside showing lines: silence of its keyboard, the clipboard, an editor."""

from __future__ import annotations

import base64
import contextlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from speccli.errors import UsageError

MAX_OSC52_BYTES = 74_994
"""What xterm takes; others take more."""

CLIPBOARD_PROGRAMS = (("wl-copy",), ("xclip", "-selection", "clipboard"), ("xsel", "-ib"), ("pbcopy",), ("clip.exe",))
"""The first needs Wayland, the next two X11."""

CLIPBOARD_PATIENCE_S = 5.0
"""Some wait for ever where no clipboard answers."""


BRACKETED, NOT_BRACKETED = "\x1b[?2004h", "\x1b[?2004l"
"""Terminals that know them mark where what is pasted begins and ends."""


@contextlib.contextmanager
def silent_keyboard(pasting: TextIO | None = None) -> Iterator[None]:
    """Keys typed meanwhile are not shown; they wait for the next prompt. Ctrl-C still interrupts.

    `pasting` is the terminal where that prompt will be: several lines pasted meanwhile stay one message.
    """
    try:
        import termios

        descriptor = sys.stdin.fileno()
        before = termios.tcgetattr(descriptor)
    except (ImportError, OSError, ValueError, AttributeError, termios.error):  # no terminal
        yield
        return
    silent = list(before)
    silent[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(descriptor, termios.TCSANOW, silent)
    _tell(pasting, BRACKETED)
    try:
        yield
    finally:
        _tell(pasting, NOT_BRACKETED)
        termios.tcsetattr(descriptor, termios.TCSANOW, before)


def copy(text: str, terminal: TextIO) -> str:
    """Put text on the clipboard; say how. Raises `UsageError` where there is no way."""
    for command in CLIPBOARD_PROGRAMS:
        if _can_run(command[0]) and _ran(command, text):
            return command[0]
    encoded = base64.b64encode(text.encode())
    if not terminal.isatty() or os.environ.get("TERM") == "dumb":
        raise UsageError("there is no clipboard here", "/save writes the conversation to a file")
    if len(encoded) > MAX_OSC52_BYTES:
        raise UsageError(
            f"the answer is too long for the terminal's clipboard: {len(text.encode()):,} bytes",
            "/save writes it to a file",
        )
    sequence = f"\x1b]52;c;{encoded.decode()}\x07"
    terminal.write(f"\x1bPtmux;\x1b{sequence}\x1b\\" if os.environ.get("TMUX") else sequence)
    terminal.flush()
    return "the terminal (OSC 52)"


def edit(text: str, terminal: TextIO | None = None) -> str:
    """Let the user change the text in $VISUAL or $EDITOR, which is shown on the terminal."""
    command = _editor()
    with tempfile.TemporaryDirectory(prefix="speccli-") as folder:
        file = Path(folder) / "message.md"
        file.write_text(text, encoding="utf-8")
        try:
            code = subprocess.run([*command, str(file)], stdout=terminal, stderr=terminal, check=False).returncode
        except OSError as error:
            raise UsageError(f"cannot run the editor {command[0]}: {error.strerror}", "set $EDITOR") from error
        if code:
            raise UsageError(f"the editor {command[0]} ended with {code}", "nothing was changed")
        try:
            return file.read_text(encoding="utf-8").strip()
        except UnicodeDecodeError as error:
            raise UsageError(f"the editor {command[0]} left no UTF-8 text", "nothing was changed") from error


def _editor() -> list[str]:
    """The command that edits a file."""
    wanted = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    try:
        return shlex.split(wanted) or [_known_editor()]
    except ValueError as error:
        raise UsageError(f"the editor {wanted} is no command: {error}", "set $EDITOR") from error


def _known_editor() -> str:
    found = next((name for name in ("nano", "vim", "vi") if shutil.which(name)), None)
    if found is None:
        raise UsageError("there is no editor", "set $EDITOR")
    return found


def _can_run(program: str) -> bool:
    if program == "wl-copy" and not os.environ.get("WAYLAND_DISPLAY"):
        return False
    if program in ("xclip", "xsel") and not os.environ.get("DISPLAY"):
        return False
    return shutil.which(program) is not None


def _ran(command: tuple[str, ...], text: str) -> bool:
    quiet = subprocess.DEVNULL
    try:
        done = subprocess.run(
            command, input=text.encode(), stdout=quiet, stderr=quiet, timeout=CLIPBOARD_PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _tell(terminal: TextIO | None, sequence: str) -> None:
    if terminal is not None:
        terminal.write(sequence)
        terminal.flush()
