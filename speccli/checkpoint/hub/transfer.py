"""One file from the hub into the cache: continued where it stopped, and checked before it counts.

huggingface_hub itself begins a file anew after an interruption, and compares sizes only.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from pathlib import Path

from speccli.checkpoint.hub import cached
from speccli.checkpoint.hub.access import Hub, headers, patiently
from speccli.checkpoint.hub.failures import NotTheHub, is_cut, is_passing
from speccli.checkpoint.hub.repository import Narrate, RemoteFile, Repository
from speccli.errors import CheckpointError

Advance = Callable[[int], None]
"""Told how many bytes more are here; fewer, if a part has to come again."""


class Stopped(Exception):
    """The download was given up meanwhile."""


def get(
    file: RemoteFile, repository: Repository, hub: Hub, narrate: Narrate, advance: Advance, stop: threading.Event
) -> None:
    """Have the file's contents in the cache."""
    from huggingface_hub.utils import WeakFileLock

    contents = cached.blob(hub, repository.repo, file)
    lock = cached.lock(hub, repository.repo, file)
    for folder in (contents.parent, lock.parent):
        folder.mkdir(parents=True, exist_ok=True)
    with WeakFileLock(lock):
        if cached.size_bytes(contents) == file.size_bytes:  # another process was quicker
            advance(file.size_bytes)
            return
        partial = cached.partial(hub, repository.repo, file)
        _receive(file, hub.endpoint + repository.resolve_path(file.path), partial, hub, narrate, advance, stop)
        _verify(file, repository.repo, partial)
        partial.replace(contents)


def _receive(
    file: RemoteFile, url: str, partial: Path, hub: Hub, narrate: Narrate, advance: Advance, stop: threading.Event
) -> None:
    if (cached.size_bytes(partial) or 0) > file.size_bytes:
        partial.unlink()
    advance(cached.size_bytes(partial) or 0)

    def attempt() -> bool:
        before = cached.size_bytes(partial) or 0
        try:
            _stream(url, partial, hub, advance, stop)
        except Exception as error:
            if is_cut(error) and (cached.size_bytes(partial) or 0) > before:
                return False  # it moves: that was no failed try
            raise
        return True

    def is_worth_another_try(error: Exception) -> bool:
        return is_cut(error) or is_passing(error)

    if file.size_bytes == 0:
        partial.touch()
    while (cached.size_bytes(partial) or 0) < file.size_bytes and not patiently(
        hub, attempt, narrate, is_worth_another_try=is_worth_another_try, sleep=stop.wait
    ):
        narrate(f"{file.path}: the connection was cut; going on from there")


def _stream(url: str, partial: Path, hub: Hub, advance: Advance, stop: threading.Event) -> None:
    """Add to `partial` what is missing. The hub's redirect to its storage is followed anew each time: it expires."""
    from huggingface_hub import constants, get_session, hf_raise_for_status

    before = cached.size_bytes(partial) or 0
    wanted = {**headers(hub), "Accept-Encoding": "identity"}
    if before:
        wanted["Range"] = f"bytes={before}-"
    with get_session().stream("GET", url, headers=wanted, timeout=constants.HF_HUB_DOWNLOAD_TIMEOUT) as answer:
        hf_raise_for_status(answer)
        if answer.headers.get("Content-Type", "").startswith("text/html"):
            raise NotTheHub("with an HTML page")
        continues = answer.status_code == 206
        if not continues:
            advance(-before)
        with partial.open("ab" if continues else "wb") as out:
            for chunk in answer.iter_bytes():
                if stop.is_set():
                    raise Stopped
                out.write(chunk)
                advance(len(chunk))


def _verify(file: RemoteFile, repo: str, partial: Path) -> None:
    """A file that is not what the hub lists is thrown away, so that the next try gets it anew."""
    size, digest = partial.stat().st_size, digest_of(partial, file.digest)
    if digest == file.digest:
        return
    partial.unlink()
    what = (
        f"{size:,} instead of {file.size_bytes:,} bytes"
        if size != file.size_bytes
        else f"its hash is {digest[:12]}… instead of {file.digest[:12]}…"
    )
    raise CheckpointError(
        f"{file.path} of {repo} arrived damaged: {what}",
        "it was thrown away: run the same command again; if that repeats itself, a proxy or the disk alters what comes",
    )


def digest_of(path: Path, like: str) -> str:
    """sha256 for files in large-file storage, git's own sha1 for the others; `like` tells by its length."""
    with path.open("rb") as contents:
        if len(like) == 64:
            return hashlib.file_digest(contents, "sha256").hexdigest()
        start = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
        while chunk := contents.read(1 << 20):
            start.update(chunk)
        return start.hexdigest()
