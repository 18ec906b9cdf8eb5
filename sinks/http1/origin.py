"""Connections to one server, kept for the next call, and the request that goes over them."""

from __future__ import annotations

import ssl
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NameResolutionError,
    NewConnectionError,
)

from sinks.http1.bodies import BLOCK_BYTES, Body, BodyFailed, joined, pieces_of
from sinks.http1.failures import Broken, NotConnected, TimedOut
from sinks.http1.response import Response

HEAD_WAITS = 2
"""How many of its longest waits an answer's head may take as a whole."""


def default_port(scheme: str) -> int:
    return 443 if scheme == "https" else 80


class Origin:
    """One scheme, host and port, and the idle connections to it. Safe to use from many threads,
    each of which has a connection of its own while it is at it."""

    def __init__(
        self,
        scheme: str,
        host: str,
        port: int,
        *,
        connect_seconds: float,
        kept: int,
        ca_file: Path | None = None,
        certificate_of: str | None = None,
    ) -> None:
        """``kept``: idle connections at most. ``certificate_of``: the name that the certificate
        must be for, where ``host`` is an address."""
        self._secure = scheme == "https"
        self._host, self._port = host, port
        named = f"[{host}]" if ":" in host else host
        self.host_header = named if port == default_port(scheme) else f"{named}:{port}"
        """As every client writes it: without the port where that is the scheme's own."""
        self._connect_seconds = connect_seconds
        self._kept = kept
        self._tls: dict[str, Any] = {"cert_reqs": "CERT_REQUIRED"}
        if ca_file is not None:
            self._tls["ca_certs"] = str(ca_file)
        if certificate_of is not None:
            self._tls |= {"server_hostname": certificate_of, "assert_hostname": certificate_of}
        self._idle: list[HTTPConnection] = []
        self._closed = False

    def request(
        self,
        method: str,
        target: str,
        *,
        headers: Mapping[str, str],
        body: Body = None,
        read_seconds: float,
    ) -> Response:
        """Send one request; gives the answer's head, whatever its status.

        :param target: path and query, as they are to be sent.
        :param headers: with Content-Length where ``body`` is not bytes.
        :param read_seconds: for every wait, of sending and receiving. The answer's whole head may
            take `HEAD_WAITS` times as long.
        :raises NotConnected: nothing was sent.
        :raises HttpFailure: no answer.
        :raises ValueError: a header or the target cannot be sent. What ``body`` raises.
        """
        head = self._head(method, target, headers, body)
        connection = self._take() or self._open()
        try:
            sock = connection.sock
            assert sock is not None
            if sock.gettimeout() != read_seconds:
                sock.settimeout(read_seconds)
            try:
                for piece in _whole(head, body):
                    sock.sendall(piece)
            except (BrokenPipeError, ConnectionResetError):
                pass  # a peer may refuse a body by answering early: the answer is read
            except TimeoutError:
                raise TimedOut("read_timeout") from None
            except BodyFailed as failed:
                raise failed.error from None
            except OSError:
                raise Broken("connection_broken") from None
        except BaseException:
            connection.close()
            raise
        return Response(
            connection, self.keep, has_body=method != "HEAD", head_seconds=HEAD_WAITS * read_seconds
        )

    def keep(self, connection: HTTPConnection) -> None:
        """Take back a connection whose answer was received to its end."""
        if self._closed or len(self._idle) >= self._kept:
            connection.close()
        else:
            self._idle.append(connection)

    def close(self) -> None:
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def _head(self, method: str, target: str, headers: Mapping[str, str], body: Body) -> bytes:
        lines = [f"{method} {target} HTTP/1.1"]
        if "Host" not in headers:
            lines.append(f"Host: {self.host_header}")
        if "Content-Length" not in headers and (body is not None or method in ("POST", "PUT")):
            assert body is None or isinstance(body, bytes), "the length must be given"
            lines.append(f"Content-Length: {len(body or b'')}")
        lines += [f"{name}: {value}" for name, value in headers.items()]
        text = "\r\n".join(lines)
        breaks = len(lines) - 1
        if text.count("\n") != breaks or text.count("\r") != breaks or "\0" in text:
            raise ValueError("a header holds a line break")
        if not (target.isascii() and target.isprintable()) or " " in target:
            raise ValueError("the target holds a character that must be quoted")
        return (text + "\r\n\r\n").encode("latin-1")

    def _take(self) -> HTTPConnection | None:
        while True:
            try:
                connection = self._idle.pop()  # the one used last is the least likely to be stale
            except IndexError:
                return None
            if connection.is_connected:
                return connection
            connection.close()

    def _open(self) -> HTTPConnection:
        if self._secure:
            connection: HTTPConnection = HTTPSConnection(
                self._host, self._port, timeout=self._connect_seconds, **self._tls
            )
        else:
            connection = HTTPConnection(self._host, self._port, timeout=self._connect_seconds)
        try:
            connection.connect()
        except (HTTPError, OSError, ValueError) as error:
            connection.close()
            # The narrow first: urllib3's "new connection failed" is a kind of its timeout.
            kinds = (
                (NameResolutionError, "dns_failed"),
                (NewConnectionError, "connect_failed"),
                ((ConnectTimeoutError, TimeoutError), "connect_timeout"),
                (
                    (ssl.SSLError, ValueError),
                    "tls_failed",
                ),  # ValueError: another host's certificate
            )
            code = next((code for kind, code in kinds if isinstance(error, kind)), "connect_failed")
            raise NotConnected(code) from None
        return connection


def _whole(head: bytes, body: Body) -> Iterable[bytes]:
    """A request in the pieces in which it is sent: most are a single one."""
    if body is None:
        return (head,)
    if isinstance(body, bytes) and len(body) < BLOCK_BYTES:
        return (head + body,)
    return joined(chain((head,), pieces_of(body)))


class Origins:
    """The origins called so far; the one not used for longest is closed when there are too many."""

    def __init__(
        self, *, connect_seconds: float, kept: int, most: int, ca_file: Path | None = None
    ) -> None:
        """``kept``: idle connections of each at most; ``most``: origins."""
        self._connect_seconds = connect_seconds
        self._kept = kept
        self._most = most
        self._ca_file = ca_file
        self._origins: OrderedDict[tuple[str, str, int, str | None], Origin] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, scheme: str, host: str, port: int, certificate_of: str | None = None) -> Origin:
        key = (scheme, host, port, certificate_of)
        with self._lock:
            found = self._origins.get(key)
            if found is None:
                found = self._origins[key] = Origin(
                    scheme,
                    host,
                    port,
                    connect_seconds=self._connect_seconds,
                    kept=self._kept,
                    ca_file=self._ca_file,
                    certificate_of=certificate_of,
                )
                if len(self._origins) > self._most:
                    self._origins.popitem(last=False)[1].close()
            else:
                self._origins.move_to_end(key)
            return found

    def close(self) -> None:
        with self._lock:
            while self._origins:
                self._origins.popitem()[1].close()
