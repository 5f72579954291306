"""A repository at one commit, and its files, as the hub lists them."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import quote

import msgspec

from speccli.source import HubSource, described

Narrate = Callable[[str], None]

COMMIT = re.compile(r"[0-9a-f]{40}")
DIGEST = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
DEFAULT_REVISION = "main"


class RemoteFile(msgspec.Struct, frozen=True):
    """A file on the hub. `digest` is its name in the cache: a sha256 for large files, git's sha1 for the others."""

    path: str
    size_bytes: int
    digest: str


class Repository(msgspec.Struct, frozen=True):
    """The files of a repository at one commit, or some of them. `revision` is what was asked for."""

    repo: str
    revision: str
    commit: str
    files: tuple[RemoteFile, ...]
    is_gated: bool = False

    @property
    def name(self) -> str:
        return described(HubSource(self.repo, None if self.revision == DEFAULT_REVISION else self.revision))

    @property
    def size_bytes(self) -> int:
        """On disk, where files with the same contents are one."""
        return sum({file.digest: file.size_bytes for file in self.files}.values())

    def only(self, paths: list[str]) -> Repository:
        by_path = {file.path: file for file in self.files}
        return msgspec.structs.replace(self, files=tuple(by_path[path] for path in paths))

    def resolve_path(self, file: str) -> str:
        """Where the hub serves a file."""
        return f"/{self.repo}/resolve/{self.commit}/{quote(file)}"
