"""The HTTP side of the hub on 127.0.0.1: one request in, one answer out, with the faults that were ordered."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from tests.hub.server import Fault, HubServer

RANGE = re.compile(r"bytes=(\d*)-(\d*)")


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    is_file: bool = False

    @classmethod
    def json(cls, value: object) -> Reply:
        return cls(200, {"Content-Type": "application/json; charset=utf-8"}, json.dumps(value).encode())

    @classmethod
    def error(cls, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> Reply:
        """As the hub tells errors: in headers, and as JSON."""
        told = {"X-Error-Code": code, "X-Error-Message": message, "Content-Type": "application/json", **(headers or {})}
        return cls(
            status, {name: value for name, value in told.items() if value}, json.dumps({"error": message}).encode()
        )

    def part(self, wanted: str) -> Reply:
        """What a Range header asks for."""
        match = RANGE.fullmatch(wanted)
        if match is None or not self.is_file:
            return self
        size = len(self.body)
        start, end = (int(number) if number else None for number in match.groups())
        if start is None:
            start, end = size - (end or 0), size - 1
        last = min(size - 1, size - 1 if end is None else end)
        if start > last:
            return Reply(416, {"Content-Range": f"bytes */{size}"})
        told = {**self.headers, "Content-Range": f"bytes {start}-{last}/{size}"}
        return replace(self, status=206, headers=told, body=self.body[start : last + 1])


class Handler(BaseHTTPRequestHandler):
    hub: ClassVar[HubServer]
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 5  # seconds: huggingface_hub keeps its connections as long as the process lives

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class's name)
        """Silence: `HubServer.requests` is the log."""

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        reply = self.hub.answer(path, self._token())
        fault = self.hub.fault_for(self.command, path, reply.is_file)
        if fault is not None and fault.status:
            reply = Reply(fault.status, fault.headers, fault.body)
        if fault is not None and fault.corrupt:
            reply = replace(reply, body=bytes(byte ^ 1 for byte in reply.body))
        if fault is None or not fault.ignore_range:
            reply = reply.part(self.headers.get("Range", ""))
        self._send(path, reply, fault)

    def _token(self) -> str | None:
        said = self.headers.get("Authorization")
        return said.removeprefix("Bearer ") if said else None

    def _send(self, path: str, reply: Reply, fault: Fault | None) -> None:
        limits = (fault.cut_after_bytes, fault.stall_after_bytes) if fault is not None and reply.body else (None, None)
        limit = next((limit for limit in limits if limit is not None), len(reply.body))
        body = b"" if self.command == "HEAD" else reply.body[:limit]
        self._record(path, reply, len(body))
        try:
            self.send_response(reply.status)
            for name, value in {**reply.headers, "Content-Length": str(len(reply.body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)
            self.wfile.flush()
        except ConnectionError:  # the client has left
            self.close_connection = True
            return
        if len(body) < len(reply.body) and self.command != "HEAD":
            self.close_connection = True
            if fault is not None and fault.stall_after_bytes is not None:
                self.hub.stopped.wait(60)

    def _record(self, path: str, reply: Reply, sent_bytes: int) -> None:
        from tests.hub.server import Request

        is_file = reply.is_file and self.command == "GET"
        self.hub.record(Request(self.command, path, dict(self.headers), reply.status, sent_bytes if is_file else 0))
