"""What is here is found without asking the hub."""

from __future__ import annotations

from speccli.checkpoint import hub
from speccli.checkpoint.hub import Hub
from tests.hub.example import FILES, TINY, fetched
from tests.hub.server import HubServer


def test_a_whole_copy_is_found_and_the_hub_not_asked(server: HubServer, at: Hub) -> None:
    server.add("org/tiny", FILES)
    assert hub.locate(TINY, at) is None
    assert server.requests == []
    folder, _ = fetched(TINY, at)
    asked = len(server.requests)
    assert hub.locate(TINY, at) == folder
    assert len(server.requests) == asked


def test_a_copy_that_lacks_its_weights_is_not_found(server: HubServer, at: Hub) -> None:
    server.add("org/tiny", FILES)
    folder, _ = fetched(TINY, at)
    (folder / "model.safetensors").unlink()
    assert hub.locate(TINY, at) is None
