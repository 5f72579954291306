"""The hub on 127.0.0.1, and a user of it. Elsewhere: `with serving() as server`, in a fixture of the test file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from speccli.checkpoint.hub import Hub
from tests.hub.example import seen_by
from tests.hub.server import HubServer, serving


@pytest.fixture
def server() -> Iterator[HubServer]:
    with serving() as running:
        yield running


@pytest.fixture
def at(server: HubServer, tmp_path: Path) -> Hub:
    """How speccli sees it."""
    return seen_by(server, tmp_path)
