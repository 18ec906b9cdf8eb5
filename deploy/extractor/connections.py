"""Bounds on what a connection may send or hold open before it has made a request.

uvicorn has none on the head of a request: anybody could fill the memory with one header that never
ends, or hold connections open with heads that do.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES = 64 * 1024
"""Of a request's head, of the lines around a chunk of its body, of its trailer."""
HEAD_TIMEOUT_S = 30.0
"""From the connection, or a request's first byte, to the end of its head."""


class BoundedHttp(HttpToolsProtocol):
    """Closes the connection, without an answer, where a bound is exceeded: no request was made."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._leads_nowhere = 0
        """Bytes received since the last head that was complete, or piece of a body."""
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_came()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._leads_nowhere += len(data)
        super().data_received(data)
        if self._leads_nowhere > MAX_HEAD_BYTES:
            self.transport.close()

    def on_message_begin(self) -> None:
        self._await_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._head_came()
        self._leads_nowhere = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._leads_nowhere = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._leads_nowhere = 0
        super().on_message_complete()

    def _await_head(self) -> None:
        self._head_came()
        self._deadline = self.loop.call_later(HEAD_TIMEOUT_S, self.transport.close)

    def _head_came(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
