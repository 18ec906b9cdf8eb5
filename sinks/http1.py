"""HTTP/1.1 exchanges for the hot path: the store's and the services' calls go through here.

urllib3 opens the connections (names, TLS and certificates are its business) and llhttp (of
`httptools`) parses the answers; what is left out is everything in between. One call costs a
quarter of the CPU of urllib3's own way, which parses an answer's head as an e-mail.

Nothing in here follows a redirect, retries, decodes, logs, or puts an address into an exception.
"""

from __future__ import annotations

import ssl
import threading
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping
from io import IOBase
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NameResolutionError,
    NewConnectionError,
)

READ_BYTES = 64 * 1024
BLOCK_BYTES = 256 * 1024
MAX_HEAD_BYTES = 64 * 1024

Body = bytes | BinaryIO | Iterator[bytes] | None


def joined(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces of at least `BLOCK_BYTES` but for the last: every small one that is
    sent, hashed or written by itself costs a thread its turn at the interpreter."""
    waiting: list[bytes] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= BLOCK_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)


class HttpFailure(Exception):
    """No (complete) answer. ``code`` says why, in one of a few words; there is no other text."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class NotConnected(HttpFailure):
    """Nothing was sent: dns_failed, connect_timeout, connect_failed, tls_failed."""


class TimedOut(HttpFailure):
    """No byte in time: read_timeout."""


class Broken(HttpFailure):
    """The connection ended, or what came is not HTTP: connection_broken."""


class CutShort(HttpFailure):
    """The body ended before the length that was announced: body_truncated."""


class Headers(dict[str, str]):
    """By lower-case name; `get` takes any case. A repeated header's values are joined."""

    def get(self, name: str, default: Any = None) -> Any:
        return super().get(name.lower(), default)

    def add(self, name: str, value: str) -> None:
        name = name.lower()
        self[name] = f"{self[name]}, {value}" if name in self else value


class Response:
    """An answer whose head is here. Its body comes from `read1`; when that is done, or at once
    where there is none, the connection is free again."""

    def __init__(self, connection: HTTPConnection, home: Origin, *, has_body: bool) -> None:
        self.status = 0
        self.headers = Headers()
        self._connection: HTTPConnection | None = connection
        self._home = home
        self._has_body = has_body
        self._parser = HttpResponseParser(self)
        self._pieces: deque[bytes] = deque()
        self._head_bytes = 0
        self._head_done = self._complete = False
        self._reusable = True
        try:
            while not self._head_done:
                self._receive()
        except BaseException:
            self.close()
            raise

    @property
    def complete(self) -> bool:
        """All of the answer has been received."""
        return self._complete

    @property
    def pending(self) -> bool:
        """Some of the body was received and not read yet."""
        return bool(self._pieces)

    def read1(self) -> bytes:
        """What one wait brought, at most `READ_BYTES`; empty at the end.

        :raises HttpFailure: the body is cut short, broken, or the next byte did not come in time.
        """
        while not self._pieces:
            if self._complete:
                return b""
            try:
                self._receive()
            except BaseException:
                self.close()
                raise
        return self._pieces.popleft()

    def close(self) -> None:
        """Drops what was not read, together with its connection: draining what a peer goes on
        sending could take for ever. Safe to call at any time."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    # -- called by the parser ------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._reusable &= not self._complete  # a second answer to one request

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._head_done:  # else a trailer, or of a second answer
            self.headers.add(name.decode("latin-1"), value.decode("latin-1"))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 200 and not self._complete:
            self.status = status
            self._reusable &= self._parser.should_keep_alive()
            self._head_done = True

    def on_body(self, piece: bytes) -> None:
        if not self._complete:
            self._pieces.append(piece)

    def on_message_complete(self) -> None:
        if self._head_done:
            self._complete = True
        else:
            self.headers.clear()  # of an interim answer (1xx)

    # -- inside --------------------------------------------------------------------------------

    def _receive(self) -> None:
        connection = self._connection
        if connection is None or connection.sock is None:
            raise Broken("connection_broken")
        try:
            data = connection.sock.recv(READ_BYTES)
        except TimeoutError:
            raise TimedOut("read_timeout") from None
        except OSError:
            raise Broken("connection_broken") from None
        if not data:
            self._ended()
        else:
            self._fed(data)
        if self._head_done and not self._has_body:
            self._complete = True
            self._pieces.clear()
        if self._complete:
            self._release()

    def _fed(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade):
            # What follows a complete answer is nobody's; what breaks one is the end of it.
            self._reusable = False
            if not self._complete:
                raise Broken("connection_broken") from None
        if not self._head_done:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                raise Broken("connection_broken")

    def _ended(self) -> None:
        """The peer ended the connection: the end of a body whose length nothing tells."""
        self._reusable = False
        if not self._head_done:
            raise Broken("connection_broken")
        if "content-length" in self.headers or "transfer-encoding" in self.headers:
            raise CutShort("body_truncated")
        self._complete = True

    def _release(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._reusable:
            self._home.keep(connection)
        else:
            connection.close()


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
        self._host_header = named if port == (443 if self._secure else 80) else f"{named}:{port}"
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
        :param read_seconds: for every wait, of sending and receiving.
        :raises NotConnected: nothing was sent.
        :raises HttpFailure: no answer.
        :raises ValueError: a header or the target cannot be sent. What ``body`` raises.
        """
        head = self._head(method, target, headers, body)
        connection = self._take() or self._open()
        try:
            sock = connection.sock
            assert sock is not None
            sock.settimeout(read_seconds)
            try:
                for piece in joined(chain((head,), _pieces_of(body))):
                    sock.sendall(piece)
            except (BrokenPipeError, ConnectionResetError):
                pass  # a peer may refuse a body by answering early: the answer is read
            except TimeoutError:
                raise TimedOut("read_timeout") from None
            except _NotFromTheBody as failed:
                raise failed.error from None
            except OSError:
                raise Broken("connection_broken") from None
        except BaseException:
            connection.close()
            raise
        return Response(connection, self, has_body=method != "HEAD")

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
            lines.append(f"Host: {self._host_header}")
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

    def of_url(self, url: str) -> Origin:
        """:raises ValueError: the URL has no host or a port that is no number."""
        parts = urlsplit(url)
        if not parts.hostname:
            raise ValueError("a URL without a host")
        return self.of(
            parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
        )

    def close(self) -> None:
        with self._lock:
            while self._origins:
                self._origins.popitem()[1].close()


class _NotFromTheBody(Exception):
    """Carries what a body's iterator raised past the handlers for the socket's errors."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def _pieces_of(body: Body) -> Iterator[bytes]:
    if body is None:
        return
    try:
        if isinstance(body, bytes):
            for start in range(0, len(body), BLOCK_BYTES):
                yield body[start : start + BLOCK_BYTES]
        elif isinstance(body, IOBase):  # an iterator too, but of lines
            while piece := body.read(BLOCK_BYTES):
                yield piece
        else:
            yield from body
    except OSError as error:  # the disk's, not the connection's
        raise _NotFromTheBody(error) from None
