"""A Hugging Face hub on 127.0.0.1: the part of its protocol that downloading models uses, and its failures on command.

Model info, tree, refs, gated and private repositories, resolve with ETags and ranges; small files behind a relative
redirect, large ones behind one to a storage host of its own (another name, so that no token may follow). No Xet: no
answer names it, so clients use plain HTTP.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from urllib.parse import quote

from tests.hub.handler import Handler, Reply

LFS_ENDINGS = (".safetensors", ".bin", ".pt", ".gguf", ".onnx", "tokenizer.json", ".model")
"""As in a model repository's .gitattributes, and tokenizer.json for its size."""


@dataclass(frozen=True)
class Request:
    """A request that was answered. `sent_bytes` counts what was written of a file."""

    method: str
    path: str
    headers: Mapping[str, str]
    status: int
    sent_bytes: int

    @property
    def has_token(self) -> bool:
        return "authorization" in {name.lower() for name in self.headers}


@dataclass
class Fault:
    """What happens instead to requests whose path holds `path`, `times` times."""

    path: str
    method: str | None = None
    times: int = 1_000_000
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    cut_after_bytes: int | None = None
    """Of each answer's body, then the connection ends."""
    stall_after_bytes: int | None = None
    """Of each answer's body, then nothing comes until the server stops."""
    corrupt: bool = False
    """The right number of wrong bytes."""
    ignore_range: bool = False
    """The whole file, whatever part is asked for."""

    def meets(self, method: str, path: str, is_file: bool) -> bool:
        """Only a `status` can take the place of an answer that carries no file."""
        is_meant = self.path in path and self.method in (None, method)
        return self.times > 0 and is_meant and (bool(self.status) or is_file)


@dataclass
class Repo:
    gated: bool
    private: bool
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)

    def commit_of(self, revision: str) -> str | None:
        return revision if revision in self.commits else {**self.branches, **self.tags}.get(revision)


class HubServer:
    """Repositories, who may read them, what shall go wrong, and every request that came."""

    def __init__(self) -> None:
        self.repos: dict[str, Repo] = {}
        self.readers: dict[str, set[str]] = {}
        self.faults: list[Fault] = []
        self.requests: list[Request] = []
        self.stopped = threading.Event()
        self._lock = threading.Lock()
        self._servers = [ThreadingHTTPServer(("127.0.0.1", 0), self._handler()) for _ in range(2)]
        self.endpoint, self.storage = (
            f"http://{host}:{server.server_port}"
            for host, server in zip(("127.0.0.1", "localhost"), self._servers, strict=True)
        )

    def _handler(self) -> type[Handler]:
        return type("BoundHandler", (Handler,), {"hub": self})

    def start(self) -> None:
        for server in self._servers:
            server.daemon_threads = True
            server.block_on_close = False
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def stop(self) -> None:
        self.stopped.set()
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def add(
        self, repo: str, files: dict[str, bytes], *, branch: str = "main", gated: bool = False, private: bool = False
    ) -> str:
        """Put a commit with exactly these files on a branch; returns its hash."""
        tree = json.dumps({path: hashlib.sha256(content).hexdigest() for path, content in files.items()})
        commit = hashlib.sha1(f"{repo} {tree}".encode()).hexdigest()
        found = self.repos.setdefault(repo, Repo(gated, private))
        found.commits[commit] = files
        found.branches[branch] = commit
        return commit

    def tag(self, repo: str, name: str, commit: str) -> None:
        self.repos[repo].tags[name] = commit

    def give_access(self, token: str, *repos: str) -> None:
        """Make the token valid, and let it read these gated or private repositories."""
        self.readers.setdefault(token, set()).update(repos)

    def fail(self, fault: Fault) -> None:
        self.faults.append(fault)

    def paths(self, method: str | None = None) -> list[str]:
        """What was asked for, in order."""
        return [request.path for request in self.requests if method in (None, request.method)]

    def sent(self, ending: str) -> list[Request]:
        """The answers that carried bytes of files whose path ends so."""
        return [request for request in self.requests if request.path.endswith(ending) and request.sent_bytes]

    def record(self, request: Request) -> None:
        with self._lock:
            self.requests.append(request)

    def fault_for(self, method: str, path: str, is_file: bool) -> Fault | None:
        with self._lock:
            fault = next((fault for fault in self.faults if fault.meets(method, path, is_file)), None)
            if fault is not None:
                fault.times -= 1
            return fault

    # --- What the hub answers

    def answer(self, path: str, token: str | None) -> Reply:
        """To a request without faults."""
        if token is not None and token not in self.readers:
            return Reply.error(401, "", "Invalid credentials in Authorization header")
        parts = path.strip("/").split("/")
        if parts[0] == "lfs":
            return self._stored(parts[1])
        if parts[:2] == ["api", "resolve-cache"]:
            return self._content(parts[3] + "/" + parts[4], parts[5], "/".join(parts[6:]))
        is_api = parts[:2] == ["api", "models"]
        org, name, *rest = parts[2:] if is_api else [*parts, ""]
        repo_id = f"{org}/{name}"
        repo = self.repos.get(repo_id)
        may_read = token is not None and repo_id in self.readers[token]
        if repo is None or (repo.private and not may_read):
            return _no_repository(token)
        if is_api:
            return self._api(repo_id, repo, rest)
        if rest[0] != "resolve":
            return Reply.error(404, "", "Sorry, we can't find the page you are looking for.")
        if repo.gated and not may_read:
            return _gated(repo_id, token)
        return self._resolve(repo_id, repo, rest[1], "/".join(rest[2:-1]))

    def _api(self, repo_id: str, repo: Repo, rest: list[str]) -> Reply:
        kind, revision = (rest[0] if rest else "revision"), (rest[1] if len(rest) > 1 else "main")
        if kind == "refs":
            return Reply.json(
                {"branches": _refs(repo.branches, "heads"), "converts": [], "tags": _refs(repo.tags, "tags")}
            )
        commit = repo.commit_of(revision)
        if commit is None:
            return Reply.error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        files = repo.commits[commit]
        if kind == "tree":
            folder = "/".join(rest[2:])
            inside = {
                path: content for path, content in files.items() if path.startswith(f"{folder}/" if folder else "")
            }
            if folder and not inside:
                return Reply.error(404, "EntryNotFound", f"{folder} does not exist on {revision}")
            return Reply.json([_tree_entry(path, content) for path, content in inside.items()])
        if kind == "revision":
            siblings = [_sibling(path, content) for path, content in files.items()]
            known = {"id": repo_id, "modelId": repo_id, "sha": commit, "private": repo.private, "disabled": False}
            return Reply.json({**known, "gated": "manual" if repo.gated else False, "tags": [], "siblings": siblings})
        return Reply.error(404, "", "Not found")

    def _resolve(self, repo_id: str, repo: Repo, revision: str, path: str) -> Reply:
        commit = repo.commit_of(revision)
        if commit is None:
            return Reply.error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        content = repo.commits[commit].get(path)
        if content is None:
            return Reply.error(404, "EntryNotFound", "Entry not found", {"X-Repo-Commit": commit})
        etag = digest(path, content)
        known = {"X-Repo-Commit": commit, "ETag": f'"{etag}"'}
        if not is_lfs(path):
            return Reply(307, {**known, "Location": f"/api/resolve-cache/models/{repo_id}/{commit}/{quote(path)}"})
        linked = {"X-Linked-Etag": f'"{etag}"', "X-Linked-Size": str(len(content))}
        return Reply(302, {**known, **linked, "Location": f"{self.storage}/lfs/{etag}/{quote(path)}"})

    def _content(self, repo_id: str, commit: str, path: str) -> Reply:
        content = self.repos[repo_id].commits[commit][path]
        return Reply(200, {"X-Repo-Commit": commit, "ETag": f'"{digest(path, content)}"'}, content, is_file=True)

    def _stored(self, wanted: str) -> Reply:
        for repo in self.repos.values():
            for files in repo.commits.values():
                for path, content in files.items():
                    if digest(path, content) == wanted:
                        return Reply(200, {"ETag": f'"{wanted}"'}, content, is_file=True)
        return Reply.error(404, "", "NoSuchKey")


@contextmanager
def serving() -> Iterator[HubServer]:
    """A running hub."""
    server = HubServer()
    server.start()
    try:
        yield server
    finally:
        server.stop()


def is_lfs(path: str) -> bool:
    return path.endswith(LFS_ENDINGS)


def digest(path: str, content: bytes) -> str:
    """The ETag: sha256 in large-file storage, git's blob hash otherwise."""
    return hashlib.sha256(content).hexdigest() if is_lfs(path) else _git_hash(content)


def _git_hash(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _sibling(path: str, content: bytes) -> dict[str, object]:
    entry: dict[str, object] = {"rfilename": path, "size": len(content), "blobId": _git_hash(content)}
    if is_lfs(path):
        entry["lfs"] = {"sha256": digest(path, content), "size": len(content), "pointerSize": 134}
    return entry


def _tree_entry(path: str, content: bytes) -> dict[str, object]:
    entry: dict[str, object] = {"type": "file", "oid": _git_hash(content), "size": len(content), "path": path}
    if is_lfs(path):
        entry["lfs"] = {"oid": digest(path, content), "size": len(content), "pointerSize": 134}
    return entry


def _refs(refs: dict[str, str], kind: str) -> list[dict[str, str]]:
    return [{"name": name, "ref": f"refs/{kind}/{name}", "targetCommit": commit} for name, commit in refs.items()]


def _no_repository(token: str | None) -> Reply:
    """Without a token the hub does not say whether there is one."""
    if token is None:
        return Reply.error(401, "RepoNotFound", "Invalid username or password.")
    return Reply.error(404, "RepoNotFound", "Repository not found")


def _gated(repo_id: str, token: str | None) -> Reply:
    if token is None:
        said = "You must have access to it and be authenticated to access it. Please log in."
        return Reply.error(401, "GatedRepo", f"Access to model {repo_id} is restricted. {said}")
    said = "and you are not in the authorized list."
    return Reply.error(403, "GatedRepo", f"Access to model {repo_id} is restricted {said}")
