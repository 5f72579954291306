"""The question to the hub: it ends in time, whatever the other side does."""

import socket
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from speccli.diagnose.hub import ask, ask_hub, token_source


class Refusing(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        self.send_response(401)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class's name)
        """Silence: the test's output is no place for an access log."""


@pytest.fixture
def refusing_server() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def silent_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_refusal_is_an_answer(refusing_server: str) -> None:
    answer = ask(refusing_server)()
    assert answer["error"] == ""
    assert isinstance(answer["answer_s"], float)
    assert 0 < answer["answer_s"] < 2


def test_a_closed_port_is_told_by_its_error(silent_port: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed: int = server.getsockname()[1]
    assert "refused" in str(ask(f"http://127.0.0.1:{closed}")()["error"])


def test_a_server_that_says_nothing_is_not_waited_for_long(silent_port: int) -> None:
    started = time.monotonic()
    answer = ask(f"http://127.0.0.1:{silent_port}", timeout_s=0.2)()
    assert answer["error"] != ""
    assert time.monotonic() - started < 1.5


@pytest.mark.parametrize("endpoint", ["not an address", "http://..", "http://localhost:abc"])
def test_an_endpoint_that_is_no_address_is_told(endpoint: str) -> None:
    error = str(ask(endpoint)()["error"])
    assert error
    assert "no answer within" not in error


def test_a_socks_proxy_that_cannot_be_used_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "socksio", None)
    monkeypatch.setenv("https_proxy", "socks5h://localhost:1")
    error = str(ask("https://hub.example")()["error"])
    assert error.startswith("https_proxy names a SOCKS proxy")
    assert "pip install 'httpx[socks]'" in error


def test_offline_asks_nobody() -> None:
    hub = ask_hub({"HF_TOKEN": "hf_abc"}, offline=True)()
    assert (hub.offline_because, hub.error, hub.token_from) == ("--offline", "", "HF_TOKEN")


def test_the_token_is_looked_for_in_the_environment_and_then_in_its_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    assert token_source({}, file) == ""
    file.touch()
    assert token_source({}, file) == ""
    file.write_text("hf_abc")
    assert token_source({}, file) == str(file)
    assert token_source({"HUGGING_FACE_HUB_TOKEN": "hf_abc"}, file) == "HUGGING_FACE_HUB_TOKEN"
    assert token_source({"HF_TOKEN": " ", "HUGGING_FACE_HUB_TOKEN": "hf_abc"}, file) == "HUGGING_FACE_HUB_TOKEN"
    assert token_source({"HF_TOKEN": "hf_abc"}, file) == "HF_TOKEN"
