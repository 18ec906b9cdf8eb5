"""One HTTP exchange, with every way it can break turned into an error by its meaning.

`sinks.http1` and not requests: 0.1 ms against 1.3 ms of CPU a call, and a job is a dozen calls.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from consumers.providers.errors import (
    CallFailed,
    ProviderError,
    ServiceUnavailable,
    SubmitUnknown,
    Truncated,
)
from consumers.providers.failures import SUBMIT
from sinks.http1 import (
    Body,
    CutShort,
    HttpFailure,
    NotConnected,
    Origin,
    Origins,
    Response,
    default_port,
)

# Other clients' urllib3 logs whole URLs (also in warnings), and a presigned URL is a credential.
logging.getLogger("urllib3").setLevel(logging.ERROR)

MAX_JSON_BYTES = 8 * 1024 * 1024
MAX_URL_LENGTH = 16 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one call; times in seconds."""

    connect_seconds: float = 5.0
    read_seconds: float = 60.0
    """Between two pieces of an answer."""
    total_seconds: float = 300.0
    """For a whole answer's body: a peer that drips may not hold a thread for ever."""
    max_json_bytes: int = MAX_JSON_BYTES


def new_origins(
    limits: Limits, *, connections: int, ca_file: Path | None = None, hosts: int = 8
) -> Origins:
    return Origins(
        connect_seconds=limits.connect_seconds, kept=connections, most=hosts, ca_file=ca_file
    )


def target_of(url: str) -> str:
    """Path and query of ``url``, as they are sent. Spaces are quoted: services do write them."""
    parts = urlsplit(url)
    target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    return target.replace(" ", "%20")


def origin_of(url: str) -> tuple[str, str, int]:
    """Scheme, host and port of an http(s) URL without user information.

    Raises:
        ValueError: it is not such a URL.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise ValueError("not an http(s) URL with a host and without user information")
    return (
        parts.scheme,
        parts.hostname.lower(),
        parts.port or default_port(parts.scheme),
    )


@contextmanager
def opened(
    origin: Origin,
    method: str,
    target: str,
    *,
    operation: str,
    headers: Mapping[str, str],
    body: Body,
    limits: Limits,
    extra_read_seconds: float = 0.0,
) -> Iterator[Response]:
    """An answer's head, its body unread. What was not read when the block ends is dropped together
    with the connection."""
    try:
        response = origin.request(
            method,
            target,
            headers=headers,
            body=body,
            read_seconds=limits.read_seconds + extra_read_seconds,
        )
    except HttpFailure as error:
        raise _meaning(error, operation) from None
    except (OSError, ValueError):  # the document's file, or a header that cannot be sent
        raise unusable("connection_broken", operation) from None
    try:
        yield response
    finally:
        response.close()


def body_pieces(response: Response, limits: Limits, *, operation: str) -> Iterator[bytes]:
    """The body as it comes, checked to be as long as announced.

    Raises:
        Truncated: it ended early.
        CallFailed: it is compressed though we asked for none, or took too long.
    """
    if response.headers.get("content-encoding", "identity").lower() not in ("", "identity"):
        raise unusable("content_encoding", operation)
    deadline = time.monotonic() + limits.total_seconds
    while True:
        try:
            piece = response.read1()
        except HttpFailure as error:
            raise _meaning(error, operation) from None
        if not piece:
            return
        yield piece
        if time.monotonic() > deadline:
            raise unusable("answer_too_slow", operation)


def unusable(code: str, operation: str, *, status: int | None = None) -> ProviderError:
    """An answer that cannot be used: for a submit, the job may exist all the same."""
    kind = SubmitUnknown if operation == SUBMIT else CallFailed
    return kind(code, status=status, operation=operation)


def _meaning(error: HttpFailure, operation: str) -> ProviderError:
    if isinstance(error, NotConnected):
        return ServiceUnavailable(error.code, operation=operation)
    if isinstance(error, CutShort) and operation != SUBMIT:
        return Truncated(error.code, operation=operation)
    return unusable(error.code, operation)
