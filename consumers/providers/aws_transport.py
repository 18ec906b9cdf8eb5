"""Sends what botocore has signed, within our own limits.

botocore's own sender reads an answer to its end however long that takes and however large it is.
Its `before-send` event lets a handler answer in its place, which keeps what botocore is good at
(credentials, signing, parsing) and gives its calls the limits that all others have. Downloads of
objects are left to botocore: they stream, and are bounded where they are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from botocore.awsrequest import AWSPreparedRequest, AWSResponse

from consumers.providers.errors import CallFailed
from consumers.providers.transport import (
    Limits,
    body_pieces,
    new_origins,
    opened,
    origin_of,
    target_of,
)


class BoundedSender:
    """A handler for `before-send`. One for each client; safe to use from many threads."""

    def __init__(self, limits: Limits, *, connections: int, ca_file: Path | None) -> None:
        self._limits = limits
        self._origins = new_origins(limits, connections=connections, ca_file=ca_file)

    def __call__(self, request: AWSPreparedRequest, **_: Any) -> AWSResponse | None:
        """Raises:
        ProviderError: no complete answer. Its operation is not known here.
        """
        if request.method == "GET" and "list-type" not in parse_qs(urlsplit(request.url).query):
            return None
        headers = {name: _text(value) for name, value in request.headers.items()}
        headers["Accept-Encoding"] = "identity"
        with opened(
            self._origins.of(*origin_of(request.url)),
            request.method,
            target_of(request.url),
            operation="",
            headers=headers,
            body=request.body,
            limits=self._limits,
        ) as response:
            body = bytearray()
            for piece in body_pieces(response, self._limits, operation=""):
                body += piece
                if len(body) > self._limits.max_json_bytes:
                    raise CallFailed("answer_too_large")
            raw = _Body(bytes(body))
            return AWSResponse(request.url, response.status, response.headers, raw)

    def close(self) -> None:
        self._origins.close()


class _Body:
    """The part of a urllib3 response that botocore reads."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self) -> Iterator[bytes]:
        yield self._content


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value
