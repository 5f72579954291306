"""Checkpoints from the Hugging Face hub, kept in the hub's own cache."""

from __future__ import annotations

from pathlib import Path

from speccli.checkpoint.files import Files
from speccli.checkpoint.hub import cached, remote, selection
from speccli.checkpoint.hub.access import Hub, from_client
from speccli.checkpoint.hub.download import Lines, download, require_disk
from speccli.checkpoint.hub.failures import Asked, expected, explained, is_unreachable
from speccli.checkpoint.hub.remote import COMMIT, Narrate, RemoteFile, Repository
from speccli.checkpoint.hub.sizes import sized
from speccli.errors import CheckpointError
from speccli.source import HubSource, described

__all__ = [
    "Hub",
    "Lines",
    "RemoteFile",
    "Repository",
    "cached",
    "download",
    "fetch",
    "from_client",
    "inspect_remote",
    "needed",
    "require_disk",
    "sized",
]


def fetch(source: HubSource, narrate: Narrate, hub: Hub | None = None) -> Path:
    """The folder with what the engine needs of a repository; what is not in the cache is downloaded."""
    hub = hub or from_client()
    found = needed(source, hub, narrate)
    missing = cached.missing(hub, found)
    if missing.files:
        narrate(f"downloading {described(source)}: {sized(missing.size_bytes)} in {len(missing.files)} files")
        require_disk([missing], hub)
        download(missing, hub, narrate, Lines(narrate, missing.size_bytes).advance)
    return cached.place(hub, found)


def needed(source: HubSource, hub: Hub, narrate: Narrate) -> Repository:
    """What the engine needs of a repository, wherever it is. Asks the hub unless a commit is named and here already."""
    remote.check(source)
    if hub.is_offline:
        return _kept_offline(source, hub)
    if COMMIT.fullmatch(source.revision or ""):
        try:
            return cached.kept(source, hub)
        except CheckpointError:
            pass  # not here, or not whole: the hub has it
    return _needed_of_hub(source, hub, narrate)


def inspect_remote(source: HubSource, narrate: Narrate, hub: Hub | None = None) -> Files:
    """All files of a repository, without downloading any: they can be read piece by piece."""
    hub = hub or from_client()
    remote.check(source)
    try:
        return remote.opened(remote.look(source, hub, narrate), hub)
    except expected() as error:
        raise explained(error, _asked(source, hub, error)) from error
