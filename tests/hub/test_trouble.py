"""Trouble on the way to the hub, and life without it."""

from __future__ import annotations

import dataclasses
import json

import pytest

from speccli.checkpoint import hub
from speccli.checkpoint.hub import Hub, access, failures, remote
from speccli.errors import CheckpointError
from speccli.source import HubSource
from tests.hub.example import FILES, SHARDED, STORED_WEIGHTS, TINY, WEIGHTS, fetched, refused
from tests.hub.server import Fault, HubServer, serving


def test_a_busy_hub_is_asked_again(server: HubServer, at: Hub) -> None:
    server.add("org/tiny", FILES)
    server.fail(Fault("/api/models", status=429, times=2))
    server.fail(Fault("config.json", status=503, times=1))
    folder, said = fetched(TINY, at)
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    assert [line.rpartition("; ")[2] for line in said] == [
        "trying again in 0 s",
        "trying again in 0 s",
        "downloading org/tiny: 307.24 kB in 3 files",
        "trying again in 0 s",
    ]


def test_a_hub_that_stays_busy_is_given_up_after_four_tries(server: HubServer, at: Hub) -> None:
    server.add("org/tiny", FILES)
    server.fail(Fault("/api/models", status=429))
    error = refused(TINY, at)
    assert isinstance(error, CheckpointError)
    assert error.message == "the hub has had too many questions: 429"
    assert error.hint == (
        "wait some minutes, then run the same command again: it goes on from what has come; `hf auth login` raises the limit"
    )
    assert len(server.requests) == 4


@pytest.mark.parametrize(
    "headers", [{"Retry-After": "300"}, {"RateLimit": '"api";r=0;t=300'}], ids=["Retry-After", "RateLimit"]
)
def test_a_hub_that_asks_for_long_patience_is_not_waited_for(
    headers: dict[str, str], server: HubServer, at: Hub
) -> None:
    server.fail(Fault("/api/models", status=429, headers=headers))
    assert refused(TINY, at).hint.startswith("wait 300 s, then run the same command again")
    assert len(server.requests) == 1


def test_the_wait_that_the_hub_asks_for_is_kept(server: HubServer, at: Hub) -> None:
    server.add("org/tiny", FILES)
    server.fail(Fault("/api/models", status=429, headers={"Retry-After": "7"}, times=1))
    waits: list[float] = []
    access.patiently(at, lambda: access.ask(at, "GET", "/api/models/org/tiny"), lambda _: None, sleep=waits.append)
    assert waits == [7.0]


def test_a_hub_in_trouble_is_told_after_its_tries(server: HubServer, at: Hub) -> None:
    server.add("org/tiny", FILES)
    server.fail(Fault("/api/models", status=500, headers={"X-Error-Message": "Internal error"}))
    error = refused(TINY, at)
    assert error.message == "the hub has trouble of its own with org/tiny: 500 (Internal error)"
    assert error.hint == "later, run the same command again: it goes on from what has come"
    server.faults.clear()
    server.fail(Fault("tokenizer.json", status=503))
    assert refused(TINY, at).message == "the hub has trouble of its own with tokenizer.json of org/tiny: 503"


PAGE = {"Content-Type": "text/html; charset=utf-8"}


def test_a_page_instead_of_an_answer_points_to_the_proxy(server: HubServer, at: Hub) -> None:
    server.add("org/tiny", FILES)
    server.fail(Fault("/api/models", status=200, headers=PAGE, body=b"<html>log in</html>"))
    error = refused(TINY, at)
    assert isinstance(error, CheckpointError)
    assert error.message == (
        f"{at.endpoint} answered with an HTML page, not org/tiny: it is no hub, or a proxy stands before it"
    )
    assert "HF_ENDPOINT" in error.hint


def test_a_page_instead_of_a_file_spoils_nothing_that_has_come(server: HubServer, at: Hub) -> None:
    server.add("org/tiny", FILES)
    path = STORED_WEIGHTS
    server.fail(Fault(path, cut_after_bytes=100_000, times=1))
    server.fail(Fault(path, status=200, headers=PAGE, body=b"<html>log in</html>"))
    assert "answered with an HTML page, not model.safetensors of org/tiny" in refused(TINY, at).message
    server.faults.clear()
    server.requests.clear()
    fetched(TINY, at)
    assert [request.sent_bytes for request in server.sent("model.safetensors")] == [207_200]


def test_a_proxy_that_forbids_is_told_by_its_status(server: HubServer, at: Hub) -> None:
    server.fail(Fault("/api/models", status=403, headers=PAGE, body=b"<html>forbidden</html>"))
    assert refused(TINY, at).message == f"{at.endpoint} refuses org/tiny: 403"


@pytest.mark.parametrize(
    "body",
    [b"[]", b'{"sha": "main", "siblings": []}', b'{"sha": "' + b"0" * 40 + b'", "siblings": [{"rfilename": "a"}]}'],
)
def test_something_that_is_no_hub_is_told(body: bytes, server: HubServer, at: Hub) -> None:
    server.fail(Fault("/api/models", status=200, body=body))
    assert f"{at.endpoint} answered with " in refused(TINY, at).message


def test_names_that_would_leave_the_cache_are_not_believed(server: HubServer, at: Hub) -> None:
    sibling = {"rfilename": "config.json", "size": 1, "blobId": "../../evil"}
    server.fail(Fault("/api/models", status=200, body=json.dumps({"sha": "0" * 40, "siblings": [sibling]}).encode()))
    assert "answered with other names for commits and files" in refused(TINY, at).message


@pytest.fixture
def gone(at: Hub) -> Hub:
    """A hub that nobody answers for: the port of a server that has stopped."""
    with serving() as stopped:
        return dataclasses.replace(at, endpoint=stopped.endpoint)


def test_a_hub_that_is_away_is_told_with_its_reason(gone: Hub) -> None:
    error = refused(TINY, gone)
    assert isinstance(error, CheckpointError)
    assert error.message == f"{gone.endpoint} cannot be reached: [Errno 111] Connection refused"
    assert "check the network" in error.hint


def test_a_copy_stands_in_for_a_hub_that_is_away(server: HubServer, at: Hub, gone: Hub) -> None:
    commit = server.add("org/tiny", FILES)
    folder, _ = fetched(TINY, at)
    assert fetched(TINY, gone) == (
        folder,
        [
            f"{gone.endpoint} cannot be reached: [Errno 111] Connection refused; "
            f"taking the copy in the cache, commit {commit[:12]}"
        ],
    )


def test_a_copy_stands_in_for_a_hub_in_trouble_but_not_for_one_that_says_no(server: HubServer, at: Hub) -> None:
    server.add("org/tiny", FILES)
    folder, _ = fetched(TINY, at)
    server.fail(Fault("/api/models", status=503))
    assert fetched(TINY, at)[0] == folder
    server.faults.clear()
    server.repos.clear()
    assert refused(TINY, at).message.startswith("the hub shows no repository org/tiny")


def test_offline_asks_nobody(server: HubServer, at: Hub) -> None:
    server.add("org/tiny", SHARDED)
    folder, _ = fetched(TINY, at)
    server.requests.clear()
    assert fetched(TINY, dataclasses.replace(at, is_offline=True)) == (folder, [])
    kept = hub.look(TINY, lambda _: None, dataclasses.replace(at, is_offline=True))
    assert kept.files.read_json("config.json") == {"model_type": "llama"}
    assert server.requests == []


def test_offline_without_a_copy_says_how_to_get_one(server: HubServer, at: Hub) -> None:
    server.add("org/tiny", FILES)
    error = refused(HubSource("org/tiny", "v1"), dataclasses.replace(at, is_offline=True))
    assert isinstance(error, CheckpointError)
    assert error.message == f"HF_HUB_OFFLINE is set, and org/tiny@v1 is not in the cache {at.cache}"
    assert error.hint == (
        "unset HF_HUB_OFFLINE, or `speccli pull --target org/tiny@v1` where there is a network and copy the cache"
    )


def test_offline_with_half_a_copy_names_what_is_missing(server: HubServer, at: Hub) -> None:
    server.add("org/tiny", SHARDED)
    folder, _ = fetched(TINY, at)
    (folder / "model-1-of-2.safetensors").unlink()
    assert refused(TINY, dataclasses.replace(at, is_offline=True)).message == (
        f"HF_HUB_OFFLINE is set, and the copy of org/tiny in the cache {at.cache} is incomplete: 1 of the 2 files that "
        "model.safetensors.index.json names are missing, model-1-of-2.safetensors first"
    )


def test_a_certificate_that_is_not_trusted_points_to_the_proxys(at: Hub) -> None:
    transport_error = failures.expected()[0]
    error = transport_error("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate")
    told = failures.explained(error, remote.asked(TINY, at))
    assert "SSL_CERT_FILE" in told.hint
