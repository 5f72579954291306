"""The file that keeps what has been measured, so that a bench can go on after an interruption."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from speccli import paths, whole
from speccli.bench.cells import Cell, CellResult
from speccli.errors import MachineError, UsageError

SCHEMA_VERSION = 1
KEPT_FILES = 20
"""Of those that were written without -o."""

NAMES = {"engine.max_num_seqs": "engine.max_num_seqs (the largest of --batch-sizes)"}
"""Of settings that follow from what was typed."""

Described = Mapping[str, Any]
"""Settings by a name that a person understands. Results of different ones must not be mixed."""


class Results(msgspec.Struct, forbid_unknown_fields=True):
    """What has been measured, by way and cell, and under which settings. The one thing here that grows."""

    schema_version: int
    settings: dict[str, Any]
    """Of all ways alike."""
    ways: dict[str, dict[str, Any]] = {}
    """The speculative settings of each way."""
    measured: dict[str, list[CellResult]] = {}

    def cells_of(self, way: str) -> set[Cell]:
        return {result.cell for result in self.measured.get(way, [])}

    def add(self, way: str, result: CellResult) -> None:
        self.measured.setdefault(way, []).append(result)


def new(settings: Described) -> Results:
    return Results(SCHEMA_VERSION, dict(settings))


def save(results: Results, file: Path) -> None:
    """Whatever happens, the file holds whole results."""
    try:
        whole.write(file, msgspec.json.encode(results) + b"\n")
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}", "name a file that can be written with -o") from error


def read(file: Path) -> Results:
    try:
        return msgspec.json.decode(file.read_bytes(), type=Results)
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}", "leave out --resume to begin anew") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{file} holds no results of this version of speccli: {error}", "leave out --resume, and name another file"
        ) from error


def place(output: Path | None, resume: bool, overwrite: bool) -> Path:
    """Where the results go: the named file, or one in the state folder; with `resume` the newest one there."""
    if resume and overwrite:
        raise UsageError("--resume and --overwrite contradict each other", "leave one of them out")
    if output is None:
        return _newest() if resume else _fresh()
    if not resume and not overwrite and output.exists():
        raise UsageError(f"{output} exists already", "go on with it by --resume, or replace it by --overwrite")
    return output


def require_same(kept: Described, now: Described, what: str, file: Path) -> None:
    """Raises `UsageError` with what differs."""
    kept, now = _plain(kept), _plain(now)
    different = [key for key in {**kept, **now} if kept.get(key) != now.get(key)]
    if different:
        told = "; ".join(f"{NAMES.get(key, key)} was {_said(kept, key)} and is {_said(now, key)}" for key in different)
        raise UsageError(
            f"{file} holds results of other settings{what}: {told}",
            "give the same settings as before, or leave out --resume and name another file with -o",
        )


def _plain(described: Described) -> dict[str, Any]:
    """As JSON gives it back."""
    decoded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(described))
    return decoded


def _said(described: Described, key: str) -> str:
    return str(described[key]) if key in described else "not set"


def _folder() -> Path:
    return paths.state_dir() / "bench"


def _newest() -> Path:
    files = sorted(_folder().glob("*.json"))
    if not files:
        raise UsageError("there is no bench to go on with", "name its file with -o, or leave out --resume")
    return files[-1]


def _fresh() -> Path:
    """A file of this moment; the oldest beyond `KEPT_FILES` are deleted."""
    try:
        _folder().mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MachineError(f"cannot make {_folder()}: {error.strerror}", "name a file with -o") from error
    for old in sorted(_folder().glob("*.json"))[: -KEPT_FILES + 1]:
        old.unlink(missing_ok=True)
    return _folder() / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.json"
