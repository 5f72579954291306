"""The hub on 127.0.0.1 speaks the protocol: huggingface_hub itself, unchanged, downloads from it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from huggingface_hub import HfApi, hf_hub_download, snapshot_download
from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

from tests.hub.server import Fault, HubServer

FILES = {"config.json": b'{"model_type": "llama"}', "model.safetensors": bytes(range(256)) * 400, "sub/a b.txt": b"x"}


def test_snapshot_download_gets_every_file_and_finds_them_again_offline(server: HubServer, tmp_path: Path) -> None:
    commit = server.add("org/tiny", FILES)
    folder = Path(snapshot_download("org/tiny", endpoint=server.endpoint, cache_dir=tmp_path))
    assert folder.name == commit
    assert {path: (folder / path).read_bytes() for path in FILES} == FILES
    assert snapshot_download("org/tiny", cache_dir=tmp_path, local_files_only=True) == str(folder)


def test_large_files_come_from_another_host_which_sees_no_token(server: HubServer, tmp_path: Path) -> None:
    server.add("org/tiny", FILES, private=True)
    server.give_access("hf_tok", "org/tiny")
    hf_hub_download("org/tiny", "model.safetensors", endpoint=server.endpoint, cache_dir=tmp_path, token="hf_tok")
    [stored] = [request for request in server.requests if request.path.startswith("/lfs/")]
    assert not stored.has_token
    assert all(request.has_token for request in server.requests if request is not stored)


def test_model_info_tells_sizes_and_hashes(server: HubServer) -> None:
    server.add("org/tiny", FILES)
    info = HfApi(endpoint=server.endpoint, token=False).model_info("org/tiny", files_metadata=True)
    weights = {sibling.rfilename: sibling for sibling in info.siblings or []}["model.safetensors"]
    assert weights.size == 102400
    assert weights.lfs is not None
    assert weights.lfs.sha256 == hashlib.sha256(FILES["model.safetensors"]).hexdigest()


def test_who_may_not_read_is_refused_as_the_hub_refuses(server: HubServer, tmp_path: Path) -> None:
    server.add("org/gated", FILES, gated=True)
    server.add("org/open", FILES)
    server.give_access("hf_other")
    anonymous = HfApi(endpoint=server.endpoint, token=False)
    assert anonymous.model_info("org/gated").gated == "manual"
    for token in (False, "hf_other"):
        with pytest.raises(GatedRepoError):
            hf_hub_download("org/gated", "config.json", endpoint=server.endpoint, cache_dir=tmp_path, token=token)
    with pytest.raises(RepositoryNotFoundError):
        anonymous.model_info("org/absent")
    with pytest.raises(RevisionNotFoundError):
        anonymous.model_info("org/open", revision="v9")


def test_a_cut_file_is_continued_by_range_within_one_call(
    server: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 1000)
    monkeypatch.setattr("time.sleep", lambda _: None)
    server.add("org/tiny", FILES)
    server.fail(Fault("/lfs/", cut_after_bytes=30_000, times=1))
    got = hf_hub_download("org/tiny", "model.safetensors", endpoint=server.endpoint, cache_dir=tmp_path)
    assert Path(got).read_bytes() == FILES["model.safetensors"]
    assert [request.status for request in server.sent("model.safetensors")] == [200, 206]
