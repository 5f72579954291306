"""`speccli pull`: have on this machine what a pairing needs, or say what that would take."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from speccli import checkpoint, paircheck
from speccli.checkpoint import hub
from speccli.checkpoint.files import in_folder
from speccli.errors import ExitCode
from speccli.pairing import Pairing
from speccli.prepare import Chosen
from speccli.source import Source, described
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


def pull(chosen: Chosen, dry_run: bool, as_json: bool, view: View, at: hub.Hub | None = None) -> ExitCode:
    """Download what is missing, and print what there is. `dry_run` downloads nothing, and prints what is missing.

    A pair that does not go together is refused before its weights come, as far as that shows without torch.
    """
    completed, machine, pair = chosen
    places = checkpoint.look(pair, view.narrate, at)
    seen = (
        checkpoint.glance(pair, places)
        if dry_run
        else checkpoint.inspect(pair, places, view.narrate, opens_pickles=False)
    )
    if seen is not None:
        paircheck.require(paircheck.pair_of(completed, machine, pair, seen), view.narrate)
    pulled = [_pulled(role, source, places, dry_run, view) for role, source in _roles(pair).items()]
    view.text(_as_json(pulled, dry_run) if as_json else _as_text(pulled, dry_run))
    if dry_run:
        checkpoint.require_disk(places)
    return ExitCode.DONE


def _roles(pair: Pairing) -> dict[str, Source]:
    if pair.speculator_source is None:
        return {"target": pair.target_source}
    if pair.speculator_source == pair.target_source:
        return {"target and speculator": pair.target_source}
    return {"target": pair.target_source, "speculator": pair.speculator_source}


def _pulled(role: str, source: Source, places: checkpoint.Places, dry_run: bool, view: View) -> Pulled:
    place = places[source]
    return _of_hub(role, place, dry_run, view) if isinstance(place, hub.Wanted) else _here(role, source)


def _of_hub(role: str, wanted: hub.Wanted, dry_run: bool, view: View) -> Pulled:
    repository, missing = wanted.repository, wanted.missing
    is_here = not (missing.files and dry_run)
    return Pulled(
        role=role,
        name=repository.name,
        repo=repository.repo,
        commit=repository.commit,
        path=str(hub.fetch(wanted, view.narrate, functools.partial(_progress, view))) if is_here else None,
        size_bytes=repository.size_bytes,
        missing_bytes=missing.size_bytes,
        files=tuple(PulledFile(file.path, file.size_bytes, file in missing.files) for file in repository.files),
    )


def _here(role: str, source: Source) -> Pulled:
    path = checkpoint.locate(source)
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
