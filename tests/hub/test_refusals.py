"""Refusals of the hub: who may not read, what does not exist, what cannot be a name."""

from __future__ import annotations

import dataclasses

import pytest

from speccli.checkpoint import hub
from speccli.checkpoint.hub import Hub
from speccli.errors import CheckpointError, ExitCode, UsageError
from speccli.source import HubSource
from tests.hub.example import FILES, SHARDED, TINY, WEIGHTS, bodies, fetched, refused
from tests.hub.server import Fault, HubServer


def test_a_gated_repository_without_a_token_names_its_page_and_the_login(server: HubServer, at: Hub) -> None:
    server.add("org/tiny", FILES, gated=True)
    error = refused(TINY, at)
    assert error.exit_code == ExitCode.CHECKPOINT
    assert error.message == "org/tiny is gated, and no token says who you are"
    assert error.hint == (
        f"accept its licence on {at.endpoint}/org/tiny, then `hf auth login` (or HF_TOKEN=…), and run the same command again"
    )
    assert bodies(server) == []


def test_a_gated_repository_is_refused_before_anything_is_downloaded(server: HubServer, at: Hub) -> None:
    server.add("org/tiny", FILES, gated=True)
    with pytest.raises(CheckpointError, match="org/tiny is gated"):
        hub.look(TINY, lambda _: None, at)
    assert server.paths("GET") == ["/api/models/org/tiny/revision/main"]


def test_a_gated_repository_is_refused_also_where_its_index_must_be_read(server: HubServer, at: Hub) -> None:
    server.add("org/tiny", SHARDED, gated=True)
    assert refused(TINY, at).message == "org/tiny is gated, and no token says who you are"


def with_token(at: Hub, token: str) -> Hub:
    return dataclasses.replace(at, token=token)


def test_a_gated_repository_with_a_token_names_the_page_and_the_account(server: HubServer, at: Hub) -> None:
    server.add("org/tiny", FILES, gated=True)
    server.give_access("hf_other")
    error = refused(TINY, with_token(at, "hf_other"))
    assert error.message == "org/tiny is gated, and the account of your token has no access to it"
    assert f"{at.endpoint}/org/tiny" in error.hint
    assert "`hf auth whoami`" in error.hint
    assert "hf_other" not in error.message + error.hint


@pytest.mark.parametrize(
    ("said", "message", "hint"),
    [
        (
            "Please enable access to public gated repositories in your fine-grained token settings to view this repository.",
            "org/tiny is gated, and your token may not read gated repositories",
            "/settings/tokens",
        ),
        (
            "Your request to access model org/tiny is awaiting a review from the repo authors.",
            "org/tiny is gated, and its owners have not yet answered your request",
            "/org/tiny says that you have access",
        ),
    ],
)
def test_other_reasons_for_a_closed_gate_are_told_apart(
    said: str, message: str, hint: str, server: HubServer, at: Hub
) -> None:
    server.add("org/tiny", FILES, gated=True)
    server.give_access("hf_other")
    server.fail(Fault("/resolve/", status=403, headers={"X-Error-Code": "GatedRepo", "X-Error-Message": said}))
    error = refused(TINY, with_token(at, "hf_other"))
    assert error.message == message
    assert hint in error.hint


def test_a_token_with_access_opens_gated_and_private_repositories(server: HubServer, at: Hub) -> None:
    server.add("org/gated", FILES, gated=True)
    server.add("org/private", FILES, private=True)
    server.give_access("hf_mine", "org/gated", "org/private")
    for repo in ("org/gated", "org/private"):
        folder, _ = fetched(HubSource(repo), with_token(at, "hf_mine"))
        assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    assert not any(request.has_token for request in server.requests if request.path.startswith("/lfs/"))


def test_a_missing_repository_may_be_a_private_one(server: HubServer, at: Hub) -> None:
    error = refused(TINY, at)
    assert error.message == "the hub shows no repository org/tiny, at least not without a token"
    assert error.hint == "check the spelling; if it is private, `hf auth login` first"
    server.give_access("hf_other")
    assert refused(TINY, with_token(at, "hf_other")).message == "the hub shows no repository org/tiny to your token"


def test_a_mirror_that_only_says_401_is_understood(server: HubServer, at: Hub) -> None:
    server.fail(Fault("/api/models", status=401))
    assert refused(TINY, at).message == "the hub shows no repository org/tiny, at least not without a token"


def test_a_token_that_the_hub_does_not_know_is_told(server: HubServer, at: Hub) -> None:
    server.add("org/tiny", FILES)
    error = refused(TINY, with_token(at, "hf_old"))
    assert error.message == "the hub does not accept your token: 401 (Invalid credentials in Authorization header)"
    assert "hf_old" not in error.message + error.hint


def test_a_wrong_revision_names_the_nearest(server: HubServer, at: Hub) -> None:
    commit = server.add("org/tiny", FILES)
    for tag in ("v1.0", "v1.1", "old"):
        server.tag("org/tiny", tag, commit)
    error = refused(HubSource("org/tiny", "v1.2"), at)
    assert error.message == "org/tiny has no revision 'v1.2'"
    assert error.hint == "name one that it has: `org/tiny@v1.1`, `org/tiny@v1.0`"
    server.fail(Fault("/refs", status=500))
    assert refused(HubSource("org/tiny", "v1.2"), at).hint == f"name one that {at.endpoint}/org/tiny/tree/main shows"


@pytest.mark.parametrize("repo", ["my org/tiny", "org/tiny model", "org/", "org/a--b", "org/tiny.git", "a/b/c"])
def test_a_name_that_no_repository_can_have_is_a_usage_error(repo: str, server: HubServer, at: Hub) -> None:
    error = refused(HubSource(repo), at)
    assert isinstance(error, UsageError)
    assert error.message == f"{repo!r} is no repository name"
    assert server.requests == []


def test_a_revision_that_leaves_its_folder_is_a_usage_error(at: Hub) -> None:
    assert isinstance(refused(HubSource("org/tiny", "../../main"), at), UsageError)
