"""Checkpoints from the Hugging Face hub, kept in the hub's own cache."""

from __future__ import annotations

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
from speccli.errors import CheckpointError
from speccli.source import HubSource, described

__all__ = [
    "Hub",
    "Lines",
    "RemoteFile",
    "Repository",
    "download",
    "fetch",
    "from_client",
    "inspect_remote",
    "locate",
    "missing",
    "needed",
    "place",
    "require_disk",
    "sized",
]


def fetch(source: HubSource, narrate: Narrate, hub: Hub | None = None) -> Path:
    """The folder with what the engine needs of a repository; what is not in the cache is downloaded."""
    hub = hub or from_client()
    wanted = needed(source, narrate, hub)
    absent = missing(hub, wanted)
    if absent.files:
        require_disk([absent], hub)
        download(absent, hub, narrate, Lines(narrate, absent.size_bytes).advance)
    return place(hub, wanted)


def locate(source: HubSource, hub: Hub | None = None) -> Path | None:
    """The folder of a whole copy in the cache, if there is one. The hub is not asked."""
    hub = hub or from_client()
    copy = cached.whole(source, hub)
    return cached.snapshot(hub, copy.repo, copy.commit) if copy else None


def needed(source: HubSource, narrate: Narrate, hub: Hub) -> Repository:
    """What the engine needs of a repository, whether it is here or not. No weights are downloaded."""
    repository = _look(source, narrate, hub)
    wanted = repository.only(selection.needed(remote.opened(repository, hub)))
    if repository.is_gated and missing(hub, wanted).files:
        try:
            remote.require_access(repository, hub, narrate)
        except expected() as error:
            raise explained(error, remote.asked(source, hub)) from error
    return wanted


def inspect_remote(source: HubSource, narrate: Narrate, hub: Hub | None = None) -> Files:
    """All files of a repository, to be read piece by piece. Nothing is downloaded; what is in the cache is read there."""
    hub = hub or from_client()
    return remote.opened(_look(source, narrate, hub), hub)


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
