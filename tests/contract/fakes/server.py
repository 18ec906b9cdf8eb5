"""A threaded HTTP server that a fake service is written on, and the ways in which it can misbehave.

What arrives is recorded; what is answered can be spoiled by a scripted `Fault`, one request at a
time or for good.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

_MAX_BODY = 256 * 1024 * 1024
_DRIP_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    target: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes = field(repr=False)

    @property
    def path(self) -> str:
        return unquote(urlsplit(self.target).path)

    @property
    def raw_path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        parsed = parse_qs(urlsplit(self.target).query, keep_blank_values=True)
        return {name: values[0] for name, values in parsed.items()}


@dataclass(frozen=True, slots=True)
class Reply:
    """``delivery``: `whole`; `reset` (close without a byte); `short` (half of the body, though all
    is announced); `short-close` (half, nothing announced, then close); `drip` (a byte at a time,
    without end)."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    delivery: str = "whole"


@dataclass(slots=True)
class Fault:
    """Spoils the answers to one operation. ``effect``: the request is carried out all the same."""

    spoil: Callable[[Reply], Reply]
    effect: bool = False
    times: int = 1


def json_reply(body: Any, status: int = 200, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, json.dumps(body).encode(), {"Content-Type": "application/json", **named})


def instead(reply: Reply, *, times: int = 1) -> Fault:
    """Answer this, and do nothing."""
    return Fault(lambda _: reply, times=times)


def lost_answer(*, times: int = 1) -> Fault:
    """Do it, and close the connection without an answer."""
    return Fault(lambda reply: replace(reply, delivery="reset"), effect=True, times=times)


def delivered(how: str, *, times: int = 1) -> Fault:
    """Do it, and deliver the answer in a broken way (see `Reply`)."""
    return Fault(lambda reply: replace(reply, delivery=how), effect=True, times=times)


def said_in(reply_change: Callable[[Reply], Reply], *, times: int = 1) -> Fault:
    """Do it, and change the answer."""
    return Fault(reply_change, effect=True, times=times)


class FakeService:
    """Subclasses name the operation of a request and answer it."""

    def __init__(self, *, port: int = 0, host: str = "127.0.0.1") -> None:
        self.requests: list[tuple[str, Request]] = []
        self.record_requests = True
        self._faults: dict[str, list[Fault]] = {}
        self._lock = threading.RLock()
        self._server = _Server((host, port), self)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )

    def operation_of(self, request: Request) -> str:
        raise NotImplementedError

    def answer(self, operation: str, request: Request) -> Reply:
        """Called with the lock held."""
        raise NotImplementedError

    @property
    def origin(self) -> str:
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()
        self._server.drop_connections()

    def misbehave(self, operation: str, fault: Fault) -> None:
        with self._lock:
            self._faults.setdefault(operation, []).append(fault)

    def forget_faults(self) -> None:
        with self._lock:
            self._faults.clear()

    def seen(self, *operations: str) -> list[Request]:
        with self._lock:
            return [request for name, request in self.requests if name in operations]

    def handle(self, request: Request) -> Reply:
        with self._lock:
            operation = self.operation_of(request)
            if self.record_requests:
                self.requests.append((operation, request))
            fault = self._next_fault(operation)
            if fault is None:
                return self.answer(operation, request)
            reply = self.answer(operation, request) if fault.effect else Reply()
            return fault.spoil(reply)

    def _next_fault(self, operation: str) -> Fault | None:
        faults = self._faults.get(operation, [])
        while faults:
            fault = faults[0]
            if fault.times > 0:
                fault.times -= 1
                return fault
            faults.pop(0)
        return None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256

    def __init__(self, address: tuple[str, int], service: FakeService) -> None:
        self.service = service
        self._open: set[socket.socket] = set()
        super().__init__(address, _Handler)

    def finish_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        try:
            super().finish_request(request, client_address)
        except (OSError, ValueError):
            pass  # the client went away
        finally:
            self._open.discard(request)

    def drop_connections(self) -> None:
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if length > _MAX_BODY:
            self.close_connection = True
            return
        body = self.rfile.read(length)
        headers = {name.lower(): value for name, value in self.headers.items()}
        reply = self.server.service.handle(Request(self.command, self.path, headers, body))
        self._send(reply)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_PATCH = _serve

    def _send(self, reply: Reply) -> None:
        if reply.delivery != "whole" or reply.headers.get("Connection") == "close":
            self.close_connection = True
        if reply.delivery == "reset":
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        headers = dict(reply.headers)
        if reply.delivery == "short-close":
            headers["Connection"] = "close"
        elif reply.delivery == "drip":
            headers["Content-Length"] = str(1024 * 1024 * 1024)
        elif reply.status != 204:
            headers.setdefault("Content-Length", str(len(reply.body)))
        lines = [f"HTTP/1.1 {reply.status} -"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
        body = b"" if self.command == "HEAD" else reply.body
        if reply.delivery.startswith("short"):
            body = body[: len(body) // 2]
        self.wfile.write(head + body)
        while reply.delivery == "drip":
            self.wfile.write(b" ")
            time.sleep(_DRIP_SECONDS)

    def log_message(self, format: str, *args: object) -> None:
        """The requests are recorded; nothing is printed."""


class Stranger(FakeService):
    """A server that nobody should talk to: answers everything with success and remembers it."""

    def operation_of(self, request: Request) -> str:
        return "any"

    def answer(self, operation: str, request: Request) -> Reply:
        return json_reply({"job_id": "stolen", "status": "completed", "images": []})
