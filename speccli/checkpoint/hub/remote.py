"""What the hub says about a repository, and pieces of its files."""

from __future__ import annotations

import difflib
import functools
from typing import TypeVar
from urllib.parse import quote

import msgspec

from speccli.checkpoint.files import Files
from speccli.checkpoint.hub import cached
from speccli.checkpoint.hub.access import Hub, ask, headers, patiently
from speccli.checkpoint.hub.failures import Asked, NotTheHub, expected, explained
from speccli.checkpoint.hub.repository import COMMIT, DEFAULT_REVISION, DIGEST, Narrate, RemoteFile, Repository
from speccli.errors import UsageError
from speccli.source import HubSource

T = TypeVar("T")


class _Lfs(msgspec.Struct):
    size: int
    sha256: str


class _Sibling(msgspec.Struct, rename="camel"):
    rfilename: str
    blob_id: str
    size: int
    lfs: _Lfs | None = None


class _Info(msgspec.Struct):
    sha: str
    siblings: list[_Sibling]
    gated: bool | str = False


class _Ref(msgspec.Struct):
    name: str


class _Refs(msgspec.Struct):
    branches: list[_Ref]
    tags: list[_Ref]


def check(source: HubSource) -> None:
    """Raise `UsageError` for a name that no repository can have."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(source.repo)
    except HFValidationError as error:
        raise UsageError(
            f"{source.repo!r} is no repository name", "write it as ORG/NAME, of letters, digits, `-`, `_` and `.`"
        ) from error
    if ".." in (source.revision or "") or (source.revision or "").startswith("/"):
        raise UsageError(f"{source.revision!r} is no revision", "name a branch, a tag or a commit")


def look(source: HubSource, hub: Hub, narrate: Narrate) -> Repository:
    """Ask the hub, once. Raises huggingface_hub's own errors, and `NotTheHub`."""
    revision = source.revision or DEFAULT_REVISION
    path = f"/api/models/{source.repo}/revision/{quote(revision, safe='')}"
    info = _decoded(patiently(hub, lambda: ask(hub, "GET", path, {"blobs": True}), narrate), _Info)
    files = tuple(_remote_file(sibling) for sibling in info.siblings if "/" not in sibling.rfilename)
    if not COMMIT.fullmatch(info.sha) or not all(DIGEST.fullmatch(file.digest) for file in files):
        raise NotTheHub("with other names for commits and files")
    return Repository(source.repo, revision, info.sha, files, bool(info.gated))


def require_access(repository: Repository, hub: Hub, narrate: Narrate) -> None:
    """The hub lists a gated repository to everyone, and refuses its files."""
    patiently(hub, lambda: ask(hub, "HEAD", repository.resolve_path("config.json")), narrate)


def opened(repository: Repository, hub: Hub, narrate: Narrate) -> Files:
    """The files, to be read piece by piece: those in the cache from there, the others by HTTP ranges, each once."""
    by_path = {file.path: file for file in repository.files}

    @functools.cache
    def from_hub(file: str, offset: int, size: int) -> bytes:
        try:
            return patiently(hub, lambda: _range(hub, repository.resolve_path(file), offset, size), narrate)
        except expected() as error:
            raise explained(error, asked(HubSource(repository.repo, repository.revision), hub, file)) from error

    def read(file: str, offset: int, size: int) -> bytes:
        here = cached.contents(hub, repository, by_path[file])
        if here is None:
            return from_hub(file, offset, size)
        with here.open("rb") as contents:
            contents.seek(offset)
            return contents.read(size)

    folder = cached.snapshot(hub, repository.repo, repository.commit)
    return Files(repository.name, {name: file.size_bytes for name, file in by_path.items()}, read, folder)


def asked(source: HubSource, hub: Hub, file: str = "") -> Asked:
    return Asked(
        endpoint=hub.endpoint,
        repo=source.repo,
        revision=source.revision or DEFAULT_REVISION,
        has_token=hub.token is not None,
        cache=str(hub.cache),
        file=file,
    )


def nearest_revisions(source: HubSource, hub: Hub) -> tuple[str, ...]:
    """The branches and tags that come nearest to a revision that does not exist, or else the first ones."""
    try:
        refs = _decoded(ask(hub, "GET", f"/api/models/{source.repo}/refs"), _Refs)
    except expected():  # the answer only adorns a message
        return ()
    names = [ref.name for ref in (*refs.branches, *refs.tags)]
    return tuple(difflib.get_close_matches(source.revision or "", names, 3) or names[:3])


def _range(hub: Hub, path: str, offset: int, size: int) -> bytes:
    """Some bytes of a file; no more is read than that, also where the server sends the whole file."""
    from huggingface_hub import constants, get_session, hf_raise_for_status

    if size <= 0:
        return b""
    wanted = {**headers(hub), "Accept-Encoding": "identity", "Range": f"bytes={offset}-{offset + size - 1}"}
    with get_session().stream(
        "GET", hub.endpoint + path, headers=wanted, timeout=constants.HF_HUB_DOWNLOAD_TIMEOUT
    ) as answer:
        hf_raise_for_status(answer)
        skipped = 0 if answer.status_code == 206 else offset
        got = bytearray()
        for chunk in answer.iter_bytes():
            got += chunk
            if len(got) >= skipped + size:
                break
    return bytes(got[skipped : skipped + size])


def _remote_file(sibling: _Sibling) -> RemoteFile:
    if sibling.lfs is not None:
        return RemoteFile(sibling.rfilename, sibling.lfs.size, sibling.lfs.sha256)
    return RemoteFile(sibling.rfilename, sibling.size, sibling.blob_id)


def _decoded(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        what = "with an HTML page" if body.lstrip()[:1] == b"<" else f"with something else ({error})"
        raise NotTheHub(what) from error
