"""An answer: its head, and its body as it comes. llhttp parses; what it leaves open is ours."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import Any

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser
from urllib3.connection import HTTPConnection

from sinks.http1.failures import Broken, CutShort, TimedOut

READ_BYTES = 64 * 1024
MAX_HEAD_BYTES = 64 * 1024


class _Buffer(threading.local):
    """A thread's place for what is received; pages that nothing reached are not resident.

    `recv` would take `READ_BYTES` from the heap for each answer of a few hundred bytes and cut them
    afterwards: the heap needs a hole of that size every time, and grows for want of one.
    """

    def __init__(self) -> None:
        # By default it would be shared with whatever this process forks.
        self.view = memoryview(mmap(-1, READ_BYTES, flags=MAP_PRIVATE | MAP_ANONYMOUS))


_buffer = _Buffer()


class Headers(dict[str, str]):
    """By lower-case name; `get` takes any case. A repeated header's values are joined."""

    def get(self, name: str, default: Any = None) -> Any:
        return super().get(name.lower(), default)

    def add(self, name: str, value: str) -> None:
        """``name`` is in lower case."""
        self[name] = f"{self[name]}, {value}" if name in self else value


class Response:
    """An answer whose head is here. Its body comes from `read1`; when that is done, or at once
    where there is none, the connection is free again."""

    def __init__(
        self,
        connection: HTTPConnection,
        keep: Callable[[HTTPConnection], None],
        *,
        has_body: bool,
        head_seconds: float,
    ) -> None:
        """:raises HttpFailure: the head does not come, or not within ``head_seconds`` (checked at
        each piece of it: a peer that drips may not hold a thread for ever)."""
        self.status = 0
        self.headers = Headers()
        self._connection: HTTPConnection | None = connection
        self._keep = keep
        self._has_body = has_body
        # It holds methods of this answer, so it is let go as soon as nothing is to come: a cycle
        # would keep both until the collector looks, and there are a dozen answers a document.
        self._parser: HttpResponseParser | None = HttpResponseParser(self)
        self._pieces: deque[bytes] = deque()
        self._head_bytes = 0
        self._head_done = self._complete = False
        self._reusable = True
        deadline = time.monotonic() + head_seconds
        try:
            while not self._head_done:
                self._receive()
                if not self._head_done and time.monotonic() > deadline:
                    raise TimedOut("read_timeout")
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
        self._parser = None
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    # -- called by the parser ------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._reusable &= not self._complete  # a second answer to one request

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._head_done:  # else a trailer, or of a second answer
            self.headers.add(name.decode("latin-1").lower(), value.decode("latin-1"))

    def on_headers_complete(self) -> None:
        parser = self._parser
        assert parser is not None
        status = parser.get_status_code()
        if status >= 200 and not self._complete:
            self.status = status
            self._reusable &= parser.should_keep_alive()
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
        view = _buffer.view
        try:
            size = connection.sock.recv_into(view)
        except TimeoutError:
            raise TimedOut("read_timeout") from None
        except OSError:
            raise Broken("connection_broken") from None
        if not size:
            self._ended()
        else:
            self._fed(view[:size])
        if self._head_done and not self._has_body:
            self._complete = True
            self._pieces.clear()
        if self._complete:
            self._release()

    def _fed(self, data: memoryview) -> None:
        assert self._parser is not None
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
        self._parser = None
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._reusable:
            self._keep(connection)
        else:
            connection.close()
