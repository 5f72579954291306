"""The hub's cache on this machine, in huggingface_hub's layout, so that every other tool finds the files too.

cache/models--ORG--NAME/blobs/<digest>             contents
                        snapshots/<commit>/<path>  links to them
                        refs/<revision>            the commit that a branch or tag last meant
"""

from __future__ import annotations

import os
from pathlib import Path

from speccli.checkpoint import files
from speccli.checkpoint.hub import selection
from speccli.checkpoint.hub.access import Hub
from speccli.checkpoint.hub.repository import COMMIT, DEFAULT_REVISION, RemoteFile, Repository
from speccli.errors import CheckpointError, MachineError
from speccli.source import HubSource, described


def snapshot(hub: Hub, repo: str, commit: str) -> Path:
    return _home(hub, repo) / "snapshots" / commit


def blob(hub: Hub, repo: str, file: RemoteFile) -> Path:
    return _home(hub, repo) / "blobs" / file.digest


def partial(hub: Hub, repo: str, file: RemoteFile) -> Path:
    """What has come of a file. Other clients' partial files are no prefixes of the contents, so the name is our own."""
    return _home(hub, repo) / "blobs" / f"{file.digest}.speccli.incomplete"


def lock(hub: Hub, repo: str, file: RemoteFile) -> Path:
    """The lock that huggingface_hub takes for the same file."""
    return hub.cache / ".locks" / _home(hub, repo).name / f"{file.digest}.lock"


def missing(hub: Hub, repository: Repository) -> Repository:
    """The files that are not here, or have another size than they should."""
    return repository.only([file.path for file in repository.files if contents(hub, repository, file) is None])


def contents(hub: Hub, repository: Repository, file: RemoteFile) -> Path | None:
    """Where a file lies, under its name or not yet; None if it is not here, or has another size than it should."""
    named = snapshot(hub, repository.repo, repository.commit) / file.path
    places = (named, blob(hub, repository.repo, file))
    return next((place for place in places if size_bytes(place) == file.size_bytes), None)


def partial_bytes(hub: Hub, repository: Repository) -> int:
    """How much has come of files that are not whole."""
    return sum(size_bytes(partial(hub, repository.repo, file)) or 0 for file in repository.files)


def size_bytes(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None


def place(hub: Hub, repository: Repository) -> Path:
    """Give the files their names, and the branch or tag its commit. Nothing is written where all is in place already."""
    folder = snapshot(hub, repository.repo, repository.commit)
    try:
        for file in repository.files:
            _link(blob(hub, repository.repo, file), folder / file.path)
        if not COMMIT.fullmatch(repository.revision):
            _write_ref(_home(hub, repository.repo) / "refs" / repository.revision, repository.commit)
    except OSError as error:
        raise MachineError(
            f"{repository.name} cannot be kept in {hub.cache}: {error}",
            "set HF_HUB_CACHE to a folder that you can write",
        ) from error
    return folder


def kept(source: HubSource, hub: Hub) -> Repository:
    """A whole copy from before. Raises `CheckpointError`, telling what is missing, where there is none."""
    revision = source.revision or DEFAULT_REVISION
    commit = revision if COMMIT.fullmatch(revision) else _read_ref(_home(hub, source.repo) / "refs" / revision)
    folder = snapshot(hub, source.repo, commit or "-")
    if not commit or not folder.is_dir():
        raise CheckpointError(f"{described(source)} is not in the cache {hub.cache}")
    here = files.in_folder(folder, f"the copy of {described(source)} in the cache {hub.cache}")
    found = tuple(RemoteFile(name, here.sizes[name], (folder / name).resolve().name) for name in selection.needed(here))
    return Repository(source.repo, revision, commit, found)


def whole(source: HubSource, hub: Hub) -> Repository | None:
    """A whole copy from before, if there is one."""
    try:
        return kept(source, hub)
    except CheckpointError:
        return None


def _home(hub: Hub, repo: str) -> Path:
    return hub.cache / f"models--{repo.replace('/', '--')}"


def _link(contents: Path, name: Path) -> None:
    if name.exists() and (name.is_symlink() or not contents.exists()):
        return
    name.parent.mkdir(parents=True, exist_ok=True)
    name.unlink(missing_ok=True)
    try:
        name.symlink_to(os.path.relpath(contents, name.parent))
    except FileExistsError:  # another process was quicker
        return
    except OSError:  # a file system without links holds each file once, under its name
        contents.replace(name)


def _read_ref(file: Path) -> str | None:
    try:
        commit = file.read_text().strip()
    except OSError:
        return None
    return commit if COMMIT.fullmatch(commit) else None


def _write_ref(file: Path, commit: str) -> None:
    if _read_ref(file) == commit:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(f"{file.name}.{os.getpid()}.new")
    new.write_text(commit)
    new.replace(file)
