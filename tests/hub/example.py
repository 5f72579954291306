"""A tiny repository, a user who asks for it, and what came of that."""

from __future__ import annotations

from pathlib import Path

import pytest

from speccli.checkpoint import hub
from speccli.checkpoint.hub import Hub
from speccli.errors import SpeccliError
from speccli.source import HubSource
from tests.hub.server import HubServer, digest

TINY = HubSource("org/tiny")
WEIGHTS = bytes(range(256)) * 1200
"""307,200 bytes: more than one chunk of a connection."""

STORED_WEIGHTS = "/lfs/" + digest("model.safetensors", WEIGHTS)
"""Where the server keeps them."""

CONFIG = {"config.json": b'{"model_type": "llama"}', "tokenizer.json": b'{"version": "1.0"}'}
FILES = {**CONFIG, "model.safetensors": WEIGHTS}
SHARDED = {
    **CONFIG,
    "model.safetensors.index.json": b'{"weight_map": {"a": "model-1-of-2.safetensors", "b": "model-2-of-2.safetensors"}}',
    "model-1-of-2.safetensors": b"one",
    "model-2-of-2.safetensors": b"two",
}


def seen_by(server: HubServer, folder: Path) -> Hub:
    """The hub as an anonymous user without patience sees it."""
    return Hub(endpoint=server.endpoint, cache=folder / "hub", waits_s=(0.0, 0.0, 0.0))


def fetched(source: HubSource, at: Hub) -> tuple[Path, list[str]]:
    """The folder, and what was said on the way."""
    said: list[str] = []
    return hub.fetch(hub.look(source, said.append, at), said.append), said


def refused(source: HubSource, at: Hub) -> SpeccliError:
    with pytest.raises(SpeccliError) as caught:
        fetched(source, at)
    return caught.value


def bodies(server: HubServer) -> list[str]:
    """The names of the files whose contents were sent."""
    return sorted(request.path.rpartition("/")[2] for request in server.requests if request.sent_bytes)
