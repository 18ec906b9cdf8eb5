"""Sends what botocore has signed, within our own limits.

botocore's own sender reads an answer to its end however long that takes and however large it is.
Its `before-send` event lets a handler answer in its place, which keeps what botocore is good at
(credentials, signing, parsing) and gives its calls the limits that all others have.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from botocore.awsrequest import AWSPreparedRequest, AWSResponse

from consumers.providers.errors import CallFailed, ServiceUnavailable
from consumers.providers.transport import (
    Limits,
    body_pieces,
    new_origins,
    opened,
    origin_of,
    target_of,
)


class BoundedSender:
    """A handler for `before-send`. One for each client; safe to use from many threads.

    A client calls one bucket or one function, so one host. Where S3 says that the bucket is in
    another region botocore would send the document there, unasked: that is refused.
    """

    def __init__(self, limits: Limits, *, connections: int, ca_file: Path | None) -> None:
        self._limits = limits
        self._origin: tuple[str, str, int] | None = None
        self._origins = new_origins(limits, connections=connections, ca_file=ca_file)

    def __call__(self, request: AWSPreparedRequest, **_: object) -> AWSResponse:
        """Raises:
        ProviderError: no complete answer. Its operation is not known here.
        """
        origin = origin_of(request.url)
        self._origin = self._origin or origin
        if origin != self._origin:
            raise ServiceUnavailable("another_region")
        headers = {name: _text(value) for name, value in request.headers.items()}
        headers["Accept-Encoding"] = "identity"
        with ExitStack() as stack:
            response = stack.enter_context(
                opened(
                    self._origins.of(*origin),
                    request.method,
                    target_of(request.url),
                    operation="",
                    headers=headers,
                    body=request.body,
                    limits=self._limits,
                )
            )
            pieces = body_pieces(response, self._limits, operation="")
            if _is_object(request) and response.status < 300:
                raw = _Body(pieces, stack.pop_all())  # read, and ended, by whoever asked for it
            else:
                raw = _Body(iter([self._whole(pieces)]), ExitStack())
            return AWSResponse(request.url, response.status, response.headers, raw)

    def close(self) -> None:
        self._origins.close()

    def _whole(self, pieces: Iterator[bytes]) -> bytes:
        body = bytearray()
        for piece in pieces:
            body += piece
            if len(body) > self._limits.max_json_bytes:
                raise CallFailed("answer_too_large")
        return bytes(body)


class _Body:
    """The part of a urllib3 response that botocore reads."""

    def __init__(self, pieces: Iterator[bytes], connection: ExitStack) -> None:
        self._pieces = pieces
        self._connection = connection

    def stream(self) -> Iterator[bytes]:
        return self._pieces

    def read(self, _: int | None = None) -> bytes:
        """The next piece, of whatever length; empty at the end."""
        return next(self._pieces, b"")

    def close(self) -> None:
        self._connection.close()


def _is_object(request: AWSPreparedRequest) -> bool:
    return request.method == "GET" and "list-type" not in parse_qs(urlsplit(request.url).query)


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value
