"""All missing files of a repository into the cache, some at a time."""

from __future__ import annotations

import functools
import queue
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from speccli.checkpoint.hub import cached, transfer
from speccli.checkpoint.hub.access import Hub
from speccli.checkpoint.hub.failures import expected, explained
from speccli.checkpoint.hub.remote import asked
from speccli.checkpoint.hub.repository import Narrate, RemoteFile, Repository
from speccli.checkpoint.hub.sizes import sized
from speccli.checkpoint.hub.transfer import Advance
from speccli.errors import MachineError
from speccli.source import HubSource

AT_A_TIME = 4
AIR = 1.05
"""Some room must stay: for links, logs, and what the engine compiles."""

LINE_EVERY_S = 10.0


def require_disk(
    missing: Iterable[Repository],
    hub: Hub,
    free_bytes: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free,
) -> None:
    """Raise `MachineError` unless everything that is missing fits on the disk of the cache."""
    wanted = list(missing)
    need = int(sum(each.size_bytes - cached.partial_bytes(hub, each) for each in wanted) * AIR)
    folder = next(folder for folder in (hub.cache, *hub.cache.absolute().parents) if folder.exists())
    have = free_bytes(folder)
    if need > have:
        what = " and ".join(each.repo for each in wanted)
        raise MachineError(
            f"the disk of {hub.cache} has {sized(have)} free, and {sized(need)} more are needed for {what}",
            "free some space, or set HF_HUB_CACHE to a folder on a larger disk; nothing was downloaded",
        )


def download(missing: Repository, hub: Hub, narrate: Narrate, advance: Advance) -> None:
    """Get every file. Whatever ends it, the files that are whole and the starts of the others stay."""
    narrate(_announcement(missing, cached.partial_bytes(hub, missing)))
    stop = threading.Event()
    by_digest = {file.digest: file for file in missing.files}
    jobs = [functools.partial(_get, file, missing, hub, narrate, advance, stop) for file in by_digest.values()]
    try:
        _run(jobs, stop)
    except KeyboardInterrupt:
        left = cached.missing(hub, missing)
        here = missing.size_bytes - left.size_bytes + cached.partial_bytes(hub, left)
        narrate(
            f"interrupted: {sized(here)} of {sized(missing.size_bytes)} are here; the same command goes on from there"
        )
        raise


def _announcement(missing: Repository, partial_bytes: int) -> str:
    line = f"downloading {missing.name}: {sized(missing.size_bytes)} in {len(missing.files)} file{'s'[: len(missing.files) > 1]}"
    return f"{line}, of which {sized(partial_bytes)} are here" if partial_bytes else line


def _get(
    file: RemoteFile, repository: Repository, hub: Hub, narrate: Narrate, advance: Advance, stop: threading.Event
) -> None:
    try:
        transfer.get(file, repository, hub, narrate, advance, stop)
    except expected() as error:
        source = HubSource(repository.repo, repository.revision)
        raise explained(error, asked(source, hub, file.path)) from error


def _run(jobs: Sequence[Callable[[], None]], stop: threading.Event) -> None:
    """Run the jobs until all are done or one fails. A thread may wait for a silent server: none is waited for."""
    waiting: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
    ended: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
    for job in jobs:
        waiting.put(job)

    def work() -> None:
        while not stop.is_set():
            try:
                waiting.get_nowait()()
            except queue.Empty:
                return
            except BaseException as error:
                ended.put(error)
            else:
                ended.put(None)

    for _ in range(min(AT_A_TIME, len(jobs))):
        threading.Thread(target=work, daemon=True).start()
    try:
        for _ in jobs:
            if error := ended.get():
                raise error
    finally:
        stop.set()


class Lines:
    """Progress as a line now and then."""

    def __init__(self, narrate: Narrate, total_bytes: int, every_s: float = LINE_EVERY_S) -> None:
        self._narrate = narrate
        self._total_bytes = total_bytes
        self._every_s = every_s
        self._here_bytes = 0
        self._lock = threading.Lock()
        self._said_s = time.monotonic()

    def advance(self, more_bytes: int) -> None:
        with self._lock:
            self._here_bytes += more_bytes
            now_s = time.monotonic()
            if now_s - self._said_s < self._every_s:
                return
            self._said_s = now_s
            self._narrate(f"{sized(self._here_bytes)} of {sized(self._total_bytes)}")
