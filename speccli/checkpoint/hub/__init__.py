"""Checkpoints from the Hugging Face hub, kept in the hub's own cache."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import msgspec

from speccli.checkpoint.files import Files
from speccli.checkpoint.hub import cached, remote, selection
from speccli.checkpoint.hub.access import Hub, from_client
from speccli.checkpoint.hub.cached import missing, place
from speccli.checkpoint.hub.download import Lines, download, require_disk
from speccli.checkpoint.hub.failures import Asked, expected, explained, is_unreachable
from speccli.checkpoint.hub.repository import COMMIT, Narrate, RemoteFile, Repository
from speccli.checkpoint.hub.sizes import sized
from speccli.checkpoint.hub.transfer import Advance
from speccli.errors import CheckpointError
from speccli.source import HubSource, described

__all__ = [
    "Hub",
    "Lines",
    "RemoteFile",
    "Repository",
    "Wanted",
    "download",
    "fetch",
    "fetch_texts",
    "from_client",
    "has_texts",
    "is_unreachable",
    "locate",
    "look",
    "missing",
    "require_disk",
    "sized",
]

Watch = Callable[[str, int], AbstractContextManager[Advance]]
"""What is downloaded, and its size in bytes, to what is told of the progress."""


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """What the engine needs of a repository, and what of that was not here when it was looked for."""

    repository: Repository
    missing: Repository
    files: Files
    """Those of `repository`, to be read piece by piece: what is not here by HTTP ranges."""
    at: Hub


def look(source: HubSource, narrate: Narrate, at: Hub | None = None) -> Wanted:
    """What the engine needs of a repository that may be read. Nothing is downloaded."""
    at = at or from_client()
    repository = _look(source, narrate, at)
    files = remote.opened(repository, at, narrate)
    wanted = repository.only(selection.needed(files))
    absent = missing(at, wanted)
    if repository.is_gated and absent.files:
        try:
            remote.require_access(repository, at, narrate)
        except expected() as error:
            raise explained(error, remote.asked(source, at)) from error
    sizes = {file.path: file.size_bytes for file in sorted(wanted.files, key=lambda file: file.path)}
    return Wanted(wanted, absent, dataclasses.replace(files, sizes=sizes), at)


def fetch(wanted: Wanted, narrate: Narrate, watch: Watch | None = None) -> Path:
    """The folder with all of it; what is not in the cache is downloaded."""
    _have(wanted.repository, wanted.at, narrate, watch)
    return place(wanted.at, wanted.repository)


def fetch_texts(wanted: Wanted, narrate: Narrate) -> None:
    """Have all but the weights. A branch means the commit from before until these are here as well."""
    _have(_texts(wanted), wanted.at, narrate)


def has_texts(wanted: Wanted) -> bool:
    return not missing(wanted.at, _texts(wanted)).files


def locate(source: HubSource, hub: Hub | None = None) -> Path | None:
    """The folder of a whole copy in the cache, if there is one. The hub is not asked."""
    hub = hub or from_client()
    copy = cached.whole(source, hub)
    return cached.snapshot(hub, copy.repo, copy.commit) if copy else None


def _texts(wanted: Wanted) -> Repository:
    return wanted.repository.only([name for name in wanted.files.sizes if not selection.is_weights(name)])


def _have(repository: Repository, at: Hub, narrate: Narrate, watch: Watch | None = None) -> None:
    absent = missing(at, repository)
    if absent.files:
        size = absent.size_bytes
        with watch(absent.name, size) if watch else nullcontext(Lines(narrate, size).advance) as advance:
            download(absent, at, narrate, advance)


def _look(source: HubSource, narrate: Narrate, hub: Hub) -> Repository:
    """As the hub lists it, or a whole copy in the cache: for a commit, which never changes, and where the hub is away."""
    remote.check(source)
    if hub.is_offline:
        return _kept_offline(source, hub)
    if COMMIT.fullmatch(source.revision or "") and (copy := cached.whole(source, hub)):
        return copy
    try:
        return remote.look(source, hub, narrate)
    except expected() as error:
        failure = explained(error, _asked(source, hub, error))
        if is_unreachable(error) and (copy := cached.whole(source, hub)):
            narrate(f"{failure.message}; taking the copy in the cache, commit {copy.commit[:12]}")
            return copy
        raise failure from error


def _kept_offline(source: HubSource, hub: Hub) -> Repository:
    try:
        return cached.kept(source, hub)
    except CheckpointError as error:
        raise CheckpointError(
            f"HF_HUB_OFFLINE is set, and {error.message}",
            f"unset HF_HUB_OFFLINE, or `speccli pull --target {described(source)}` where there is a network "
            "and copy the cache",
        ) from error


def _asked(source: HubSource, hub: Hub, error: Exception) -> Asked:
    from huggingface_hub.errors import RevisionNotFoundError

    question = remote.asked(source, hub)
    if isinstance(error, RevisionNotFoundError):
        return msgspec.structs.replace(question, nearest_revisions=remote.nearest_revisions(source, hub))
    return question
