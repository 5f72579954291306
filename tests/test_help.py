"""Every command, argument and option has help; the README and the completions are what the program prints now."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from speccli.cli import app

ROOT = Path(__file__).parents[1]


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))


COMMANDS = dict(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_and_option_has_help(path: tuple[str, ...]) -> None:
    command = COMMANDS[path]
    assert command.help
    assert [parameter.name for parameter in command.params if not parameter.help] == []


@pytest.mark.parametrize("path", [path for path in COMMANDS if path], ids=" ".join)
def test_the_readme_shows_every_command(path: tuple[str, ...]) -> None:
    assert f"speccli {' '.join(path)}" in (ROOT / "README.md").read_text()


def test_every_option_named_in_the_readme_exists() -> None:
    known = {
        option
        for command in COMMANDS.values()
        for parameter in command.params
        for option in (*parameter.opts, *parameter.secondary_opts)
    }
    text = "\n".join(line for line in (ROOT / "README.md").read_text().splitlines() if "speccli " in line)
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))
    assert named - known - {"--help"} == set()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completions_are_what_the_program_prints(shell: str) -> None:
    printed = subprocess.run(
        [Path(sys.executable).with_name("speccli")],
        env={**os.environ, "_SPECCLI_COMPLETE": f"source_{shell}"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert printed.strip() == (ROOT / "completions" / f"speccli.{shell}").read_text().strip()
