"""Checkpoints from the hub, through the real client against a hub on 127.0.0.1: what is fetched, and where it is kept."""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import close_session, snapshot_download

from speccli.checkpoint import hub
from speccli.checkpoint.hub import Hub, access
from speccli.errors import UsageError
from speccli.source import HubSource
from tests.hub.example import CONFIG, FILES, TINY, WEIGHTS, bodies, fetched, seen_by
from tests.hub.server import Fault, HubServer, serving


@pytest.fixture
def server() -> Iterator[HubServer]:
    with serving() as running:
        yield running


@pytest.fixture
def at(server: HubServer, tmp_path: Path) -> Hub:
    return seen_by(server, tmp_path)


def test_a_repository_is_fetched_at_the_commit_that_its_branch_means(server: HubServer, at: Hub) -> None:
    commit = server.add("org/tiny", FILES)
    folder, said = fetched(TINY, at)
    assert folder == at.cache / "models--org--tiny" / "snapshots" / commit
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == FILES
    assert said == ["downloading org/tiny: 307.24 kB in 3 files"]
    assert [path for path in server.paths() if "/resolve/" in path] == sorted(
        (f"/org/tiny/resolve/{commit}/{name}" for name in FILES), key=server.paths().index
    )


def test_the_second_time_costs_one_request_and_no_contents(server: HubServer, at: Hub) -> None:
    server.add("org/tiny", FILES)
    folder, _ = fetched(TINY, at)
    server.requests.clear()
    assert fetched(TINY, at) == (folder, [])
    assert server.paths() == ["/api/models/org/tiny/revision/main"]


def test_a_commit_that_is_here_costs_no_request(server: HubServer, at: Hub) -> None:
    pinned = HubSource("org/tiny", server.add("org/tiny", FILES))
    folder, _ = fetched(pinned, at)
    server.requests.clear()
    assert fetched(pinned, at) == (folder, [])
    assert server.requests == []


def test_a_branch_that_moved_brings_only_what_changed(server: HubServer, at: Hub) -> None:
    server.add("org/tiny", FILES)
    fetched(TINY, at)
    server.requests.clear()
    commit = server.add("org/tiny", {**FILES, "config.json": b'{"model_type": "qwen3"}'})
    folder, _ = fetched(TINY, at)
    assert folder.name == commit
    assert bodies(server) == ["config.json"]
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS


def test_a_tag_is_fetched_though_the_branch_went_on(server: HubServer, at: Hub) -> None:
    first = server.add("org/tiny", FILES)
    server.tag("org/tiny", "v1", first)
    server.add("org/tiny", CONFIG)
    assert fetched(HubSource("org/tiny", "v1"), at)[0].name == first


def test_files_with_the_same_contents_are_downloaded_once(server: HubServer, at: Hub) -> None:
    server.add("org/tiny", {**CONFIG, "a.safetensors": WEIGHTS, "b.safetensors": WEIGHTS})
    folder, said = fetched(TINY, at)
    assert [name for name in bodies(server) if name.endswith("safetensors")] in (["a.safetensors"], ["b.safetensors"])
    assert (folder / "a.safetensors").read_bytes() == (folder / "b.safetensors").read_bytes() == WEIGHTS
    assert said == ["downloading org/tiny: 307.24 kB in 4 files"]


def test_an_empty_file_is_a_file(server: HubServer, at: Hub) -> None:
    server.add("org/tiny", {**FILES, "merges.txt": b""})
    folder, _ = fetched(TINY, at)
    assert (folder / "merges.txt").read_bytes() == b""


def test_other_tools_find_the_copy(server: HubServer, at: Hub) -> None:
    server.add("org/tiny", FILES)
    folder, _ = fetched(TINY, at)
    assert snapshot_download("org/tiny", cache_dir=at.cache, local_files_only=True) == str(folder)
    server.requests.clear()
    assert snapshot_download("org/tiny", cache_dir=at.cache, endpoint=at.endpoint) == str(folder)
    assert bodies(server) == []


def test_a_copy_of_another_tool_is_found(server: HubServer, at: Hub) -> None:
    server.add("org/tiny", FILES)
    folder = snapshot_download("org/tiny", cache_dir=at.cache, endpoint=at.endpoint)
    server.requests.clear()
    assert fetched(TINY, at) == (Path(folder), [])
    assert bodies(server) == []


def test_a_read_only_cache_that_is_complete_is_enough(server: HubServer, at: Hub) -> None:
    server.add("org/tiny", FILES)
    folder, _ = fetched(TINY, at)
    before = {file: file.lstat().st_mtime_ns for file in at.cache.rglob("*")}
    assert fetched(TINY, at)[0] == folder
    assert {file: file.lstat().st_mtime_ns for file in at.cache.rglob("*")} == before


def test_a_file_system_without_links_holds_each_file_under_its_name(
    server: HubServer, at: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(Path, "symlink_to", no_links)
    server.add("org/tiny", FILES)
    folder, _ = fetched(TINY, at)
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    assert not (folder / "model.safetensors").is_symlink()
    server.requests.clear()
    fetched(TINY, at)
    assert bodies(server) == []


def test_what_is_needed_can_be_read_piece_by_piece_and_nothing_is_downloaded(server: HubServer, at: Hub) -> None:
    commit = server.add("org/tiny", {**FILES, "README.md": b"r", "sub/model.safetensors": b"s"})
    files = hub.look(TINY, lambda _: None, at).files
    assert files.sizes == {"config.json": 23, "tokenizer.json": 18, "model.safetensors": 307200}
    for _ in range(2):  # and the second time nobody is asked
        assert files.read("model.safetensors", 254, 4) == b"\xfe\xff\x00\x01"
        assert files.read_json("config.json") == {"model_type": "llama"}
    assert sum(request.sent_bytes for request in server.requests) == 4 + 23
    assert files.folder == at.cache / "models--org--tiny" / "snapshots" / commit
    assert not at.cache.exists()


def test_all_but_the_weights_can_be_had_first_and_is_then_read_from_the_cache(server: HubServer, at: Hub) -> None:
    server.add("org/tiny", FILES)
    wanted = hub.look(TINY, lambda _: None, at)
    assert not hub.has_texts(wanted)
    hub.fetch_texts(wanted, lambda _: None)
    assert hub.has_texts(wanted)
    assert bodies(server) == ["config.json", "tokenizer.json"]
    assert hub.locate(TINY, at) is None
    server.requests.clear()
    assert wanted.files.read_json("tokenizer.json") == {"version": "1.0"}
    folder = hub.fetch(wanted, lambda _: None)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == FILES
    assert bodies(server) == ["model.safetensors"]


def test_a_copy_from_before_stays_the_one_until_the_weights_are_here(server: HubServer, at: Hub) -> None:
    server.add("org/tiny", FILES)
    folder, _ = fetched(TINY, at)
    server.add("org/tiny", {**FILES, "config.json": b"{}", "model.safetensors": WEIGHTS[1:]})
    hub.fetch_texts(hub.look(TINY, lambda _: None, at), lambda _: None)
    assert hub.locate(TINY, at) == folder


def test_inspection_copes_with_a_server_that_ignores_ranges(server: HubServer, at: Hub) -> None:
    server.add("org/tiny", FILES)
    server.fail(Fault("/lfs/", ignore_range=True))
    files = hub.look(TINY, lambda _: None, at).files
    assert files.read("model.safetensors", 300_000, 4) == WEIGHTS[300_000:300_004]


def test_a_piece_that_a_busy_hub_refuses_is_asked_for_again(server: HubServer, at: Hub) -> None:
    server.add("org/tiny", FILES)
    server.fail(Fault("/lfs/", status=503, times=2))
    said: list[str] = []
    assert hub.look(TINY, said.append, at).files.read("model.safetensors", 0, 2) == WEIGHTS[:2]
    assert [line.rpartition("; ")[2] for line in said] == ["trying again in 0 s"] * 2


def test_the_hub_is_what_huggingface_hub_is_set_to(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "https://mirror.example")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    found = access.from_client()
    assert found == Hub(endpoint="https://mirror.example", cache=tmp_path, token="hf_secret", is_offline=True)
    assert "hf_secret" not in repr(found)


@pytest.mark.parametrize(
    "endpoint",
    [
        "mirror.example",
        "ftp://mirror.example",
        "http://",
        "http://[",
        "",
        "http://..",
        "http://.a",
        f"http://{'a' * 300}",
        "http://localhost:abc",
    ],
)
def test_an_endpoint_that_is_no_address_is_a_usage_error(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", endpoint)
    with pytest.raises(UsageError) as caught:
        access.from_client()
    assert caught.value.message == f"HF_ENDPOINT is {endpoint!r}, which is no address"


def test_a_token_that_cannot_be_one_is_a_usage_error_that_does_not_show_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_ä secret")
    with pytest.raises(UsageError) as caught:
        access.from_client()
    assert "secret" not in caught.value.message + caught.value.hint


def test_a_token_that_cannot_be_read_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", "/dev/null/token")
    with pytest.raises(UsageError, match="cannot read your token in /dev/null/token: Not a directory"):
        access.from_client()


@pytest.fixture
def new_session() -> Iterator[None]:
    """The client's session keeps the proxies that it was made with."""
    close_session()
    yield
    close_session()


@pytest.mark.parametrize(
    ("proxy", "said"),
    [
        ("socks5://localhost:1", "HTTPS_PROXY names a SOCKS proxy"),
        ("nonsense://localhost", "Unknown scheme for proxy URL"),
        ("localhost:abc", "Invalid port: 'abc'"),
        ("http://..", "a proxy is named whose host cannot be"),
    ],
)
@pytest.mark.usefixtures("new_session")
def test_a_proxy_that_cannot_be_used_is_a_usage_error(
    proxy: str, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "socksio", None)
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    with pytest.raises(UsageError, match=said):
        access.ask(Hub(endpoint="https://hub.example", cache=tmp_path), "GET", "/api/models/a/b")
