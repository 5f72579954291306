"""What a run must not write to, and which files are its own."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from speccli.errors import UsageError
from speccli.jsonl.inputs import Input
from speccli.jsonl.places import STDIN, STDOUT, Identity, is_device, real, regular, standard, stat_of
from speccli.jsonl.run import known_run, run_path


def check_outputs(outputs: Sequence[Path | None], inputs: Sequence[Input], to_stdout: bool = False) -> None:
    """Refuse what cannot be written, an input, and the same file twice, under whatever name. The first has its run's file beside it."""
    given = [path for path in outputs if path is not None]
    for path in given:
        _require_writable(path)
    written = [*given, *(run_path(real(path)) for path in outputs[:1] if path is not None)]
    places = [(str(path), regular(stat_of(path, "write"))) for path in written]
    if to_stdout:
        places.append(("stdout", regular(standard(STDOUT))))
    read = {regular(standard(STDIN) if one.path is None else stat_of(one.path, "read")) for one in inputs}
    for name, place in places:
        if place is not None and place in read:
            raise UsageError(f"{name} is the input itself", "name another file")
    _require_different((str(path), real(path)) for path in written if not is_device(path))
    _require_different((name, place) for name, place in places if place is not None)


def written_before(output: Path | None, errors: Path | None) -> frozenset[Identity]:
    """The files that an earlier run of the same command has written, or has opened at least: no pattern means them."""
    named = [path for path in (output, errors) if path is not None]
    about = [stat_of(path, "write") for path in named]
    if output is None:
        about.append(standard(STDOUT))
    own: list[os.stat_result | None] = [one for one in about if one is not None and one.st_size == 0]
    if output is not None and regular(stat_of(output, "write")) is not None:
        own += _remembered(output, errors)
    return frozenset(place for place in map(regular, own) if place is not None)


def _remembered(output: Path, errors: Path | None) -> list[os.stat_result | None]:
    then = known_run(real(output))
    if then is None:
        return []
    with_errors = [errors] if errors is not None and then.errors == str(errors) else []
    return [stat_of(path, "write") for path in (output, run_path(real(output)), *with_errors)]


def _require_writable(path: Path) -> None:
    about = stat_of(path, "write")
    folder = real(path).parent
    if about is not None and stat.S_ISDIR(about.st_mode):
        raise UsageError(f"cannot write {path}: it is a folder", "name a file in it")
    if about is not None and stat.S_ISSOCK(about.st_mode):
        raise UsageError(f"cannot write {path}: it is a socket", "name a file")
    if about is None and not folder.is_dir():
        raise UsageError(f"cannot write {path}: its folder does not exist", "name a file in a folder that exists")
    if not os.access(folder if about is None else path, os.W_OK):
        raise UsageError(f"cannot write {path}: you may not", "name a file in a folder that you may write to")


def _require_different(named: Iterable[tuple[str, object]]) -> None:
    seen: set[object] = set()
    for name, key in named:
        if key in seen:
            raise UsageError(f"{name} is named for two outputs", "name a file for each")
        seen.add(key)
