"""Downloads that are cut, damaged or find no room: what has come stays, and what is wrong goes."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from speccli.checkpoint import hub
from speccli.checkpoint.hub import Hub, cached
from speccli.errors import CheckpointError, MachineError
from tests.hub.example import FILES, STORED_WEIGHTS, TINY, WEIGHTS, bodies, fetched, refused
from tests.hub.server import Fault, HubServer, digest


def test_a_cut_connection_is_continued_at_once(server: HubServer, at: Hub) -> None:
    server.add("org/tiny", FILES)
    server.fail(Fault(STORED_WEIGHTS, cut_after_bytes=100_000, times=2))
    folder, said = fetched(TINY, at)
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    assert said[1:] == ["model.safetensors: the connection was cut; going on from there"] * 2
    statuses = [(request.status, request.sent_bytes) for request in server.sent("model.safetensors")]
    assert statuses == [(200, 100_000), (206, 100_000), (206, 107_200)]


def test_a_silent_server_is_given_up_and_what_came_is_kept(
    server: HubServer, at: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DOWNLOAD_TIMEOUT", 0.2)
    server.add("org/tiny", FILES)
    server.fail(Fault(STORED_WEIGHTS, stall_after_bytes=100_000, times=1))
    server.fail(Fault(STORED_WEIGHTS, stall_after_bytes=0))
    error = refused(TINY, at)
    assert error.message == "the connection was cut while model.safetensors of org/tiny came: timed out"
    server.faults.clear()
    fetched(TINY, at)
    assert server.sent("model.safetensors")[-1].headers["Range"] == "bytes=100000-"


def test_what_came_before_the_connection_died_is_not_asked_for_again(server: HubServer, at: Hub) -> None:
    server.add("org/tiny", FILES)
    path = STORED_WEIGHTS
    server.fail(Fault(path, cut_after_bytes=100_000, times=1))
    server.fail(Fault(path, cut_after_bytes=0))
    error = refused(TINY, at)
    assert isinstance(error, CheckpointError)
    assert error.message.startswith("the connection was cut while model.safetensors of org/tiny came: ")
    assert error.hint == "run the same command again: it goes on from what has come"
    assert not (at.cache / "models--org--tiny" / "snapshots").exists()
    server.faults.clear()
    server.requests.clear()
    folder, _ = fetched(TINY, at)
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    [rest] = server.sent("model.safetensors")
    assert (rest.headers["Range"], rest.status, rest.sent_bytes) == ("bytes=100000-", 206, 207_200)


def test_a_server_that_ignores_ranges_sends_the_whole_file_again(server: HubServer, at: Hub) -> None:
    server.add("org/tiny", FILES)
    path = STORED_WEIGHTS
    server.fail(Fault(path, cut_after_bytes=100_000, times=1))
    server.fail(Fault(path, ignore_range=True))
    folder, _ = fetched(TINY, at)
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    assert [request.sent_bytes for request in server.sent("model.safetensors")] == [100_000, 307_200]


def test_progress_counts_every_byte_once_whatever_comes_twice(server: HubServer, at: Hub) -> None:
    server.add("org/tiny", FILES)
    path = STORED_WEIGHTS
    server.fail(Fault(path, cut_after_bytes=100_000, times=1))
    server.fail(Fault(path, ignore_range=True))
    steps: list[int] = []
    wanted = hub.look(TINY, lambda _: None, at).repository
    hub.download(wanted, at, lambda _: None, steps.append)
    assert sum(steps) == wanted.size_bytes == sum(len(content) for content in FILES.values())


def test_ctrl_c_tells_what_is_here_and_keeps_it(server: HubServer, at: Hub) -> None:
    server.add("org/tiny", FILES)
    said: list[str] = []

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    server.fail(Fault(STORED_WEIGHTS, stall_after_bytes=50_000))
    wanted = hub.look(TINY, said.append, at).repository.only(["model.safetensors"])
    partial = cached.partial(at, "org/tiny", wanted.files[0])
    partial.parent.mkdir(parents=True)
    partial.write_bytes(WEIGHTS[:40_000])
    with pytest.raises(KeyboardInterrupt):
        hub.download(wanted, at, said.append, interrupt)
    assert said == [
        "downloading org/tiny: 307.20 kB in 1 file, of which 40.00 kB are here",
        "interrupted: 40.00 kB of 307.20 kB are here; the same command goes on from there",
    ]
    assert partial.read_bytes() == WEIGHTS[:40_000]


def test_progress_lines_come_now_and_then() -> None:
    said: list[str] = []
    lines = hub.Lines(said.append, 3_000_000, every_s=0.0)
    lines.advance(1_000_000)
    lines.advance(500_000)
    assert said == ["1.00 MB of 3.00 MB", "1.50 MB of 3.00 MB"]
    hub.Lines(said.append, 10).advance(5)
    assert len(said) == 2


def test_a_damaged_file_is_named_thrown_away_and_fetched_again(server: HubServer, at: Hub) -> None:
    server.add("org/tiny", FILES)
    server.fail(Fault(STORED_WEIGHTS, corrupt=True, times=1))
    error = refused(TINY, at)
    assert isinstance(error, CheckpointError)
    assert error.message.startswith("model.safetensors of org/tiny arrived damaged: its hash is ")
    assert "run the same command again" in error.hint
    assert not [
        file for file in (at.cache / "models--org--tiny").rglob("*") if file.name.startswith(digest("x.bin", WEIGHTS))
    ]
    folder, _ = fetched(TINY, at)
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS


def test_small_files_are_checked_too(server: HubServer, at: Hub) -> None:
    server.add("org/tiny", FILES)
    server.fail(Fault("config.json", corrupt=True, times=1))
    assert refused(TINY, at).message.startswith("config.json of org/tiny arrived damaged: ")


def test_a_file_in_the_cache_that_lost_its_end_is_fetched_again(server: HubServer, at: Hub) -> None:
    server.add("org/tiny", FILES)
    folder, _ = fetched(TINY, at)
    os.truncate(folder / "model.safetensors", 1000)
    server.requests.clear()
    assert fetched(TINY, at)[0] == folder
    assert bodies(server) == ["model.safetensors"]
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS


def test_a_damaged_file_is_replaced_also_where_there_are_no_links(
    server: HubServer, at: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(Path, "symlink_to", no_links)
    server.add("org/tiny", FILES)
    folder, _ = fetched(TINY, at)
    os.truncate(folder / "model.safetensors", 1000)
    fetched(TINY, at)
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS


def test_a_partial_file_that_is_too_long_begins_anew(server: HubServer, at: Hub) -> None:
    server.add("org/tiny", FILES)
    wanted = hub.look(TINY, lambda _: None, at).repository
    partial = cached.partial(at, "org/tiny", next(file for file in wanted.files if file.path == "model.safetensors"))
    partial.parent.mkdir(parents=True)
    partial.write_bytes(WEIGHTS + b"more")
    folder, _ = fetched(TINY, at)
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS


def test_a_disk_that_is_too_small_is_told_before_the_first_byte(server: HubServer, at: Hub) -> None:
    server.add("org/tiny", FILES)
    wanted = hub.look(TINY, lambda _: None, at).repository
    with pytest.raises(MachineError) as caught:
        hub.require_disk([wanted], at, free_bytes=lambda _: 300_000)
    assert (
        caught.value.message == f"the disk of {at.cache} has 300.00 kB free, and 322.60 kB more are needed for org/tiny"
    )
    assert "HF_HUB_CACHE" in caught.value.hint
    assert bodies(server) == []
    hub.require_disk([wanted], at, free_bytes=lambda _: 330_000)


def test_what_has_come_of_a_file_needs_no_more_disk(server: HubServer, at: Hub) -> None:
    server.add("org/tiny", FILES)
    wanted = hub.look(TINY, lambda _: None, at).repository
    partial = cached.partial(at, "org/tiny", next(file for file in wanted.files if file.path == "model.safetensors"))
    partial.parent.mkdir(parents=True)
    partial.write_bytes(WEIGHTS[:300_000])
    hub.require_disk([wanted], at, free_bytes=lambda _: 10_000)


def test_a_disk_that_becomes_full_midway_is_told(server: HubServer, at: Hub) -> None:
    server.add("org/tiny", FILES)
    wanted = hub.look(TINY, lambda _: None, at).repository

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(MachineError) as caught:
        hub.download(wanted, at, lambda _: None, full)
    assert caught.value.message.startswith(f"the disk of {at.cache} became full while ")
    assert "goes on from what has come" in caught.value.hint


def test_a_cache_that_cannot_be_written_is_told(server: HubServer, at: Hub) -> None:
    server.add("org/tiny", FILES)
    at.cache.write_text("a file where a folder should be")
    error = refused(TINY, at)
    assert isinstance(error, MachineError)
    assert f"cannot be kept in {at.cache}" in error.message
    assert error.hint == "set HF_HUB_CACHE to a folder that you can write"
