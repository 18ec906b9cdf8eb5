"""Signed HTTP requests to an S3 store: one connection pool, one attempt, no redirects.

`sinks.http1` instead of the `minio.Minio` client: that one has no public way to send
`If-None-Match`, reads files into memory to sign them, cannot tell a 412 without a body from a
broken answer, costs four times the CPU, and takes longer to import than a short command may run.

Nothing here logs, and no exception carries a URL: a key may be confidential.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from urllib.parse import quote

from sinks.http1 import HttpFailure, NotConnected, Origin, Origins, Response, default_port
from sinks.objectstore.answers import (
    MAX_ERROR_BODY_BYTES,
    error_code,
    etag_of,
    failure,
    http_date,
)
from sinks.objectstore.conditional import NotSent, WriteRaced
from sinks.objectstore.errors import ObjectTooLarge, StoreError, StoreUnavailable
from sinks.objectstore.settings import S3Settings
from sinks.objectstore.signing import query_string, signature_headers

_PLAIN = re.compile(r"[A-Za-z0-9._~/-]*")
"""What no name needs quoting for: nearly all that we write."""

EMPTY_SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


class Transport:
    """Thread-safe."""

    def __init__(self, settings: S3Settings) -> None:
        self._settings = settings
        url = settings.url
        self._scheme, self._host = url.scheme, url.hostname or ""
        self._port = url.port or default_port(url.scheme)
        self._origins = Origins(
            connect_seconds=settings.connect_timeout,
            kept=settings.max_connections,
            most=16,  # with virtual addressing every bucket has a host of its own
            ca_file=settings.ca_file,
        )

    def send(
        self,
        method: str,
        bucket: str,
        key: str,
        *,
        operation: str,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | Iterator[bytes] | None = None,
        length: int = 0,
        sha256: str = EMPTY_SHA256,
    ) -> Response:
        """One request; returns a successful answer with its body unread (release it).

        `sha256` is that of `body`, which the store checks. Raises StoreError, WriteRaced (409),
        PreconditionFailed (412); NotSent if no connection came about.
        """
        origin, path = self._address(bucket, key)
        asked = query_string(query or {})
        signed = {**(headers or {}), "Host": origin.host_header}
        if self._settings.session_token:
            signed["x-amz-security-token"] = self._settings.session_token
        signed |= signature_headers(
            method,
            path,
            asked,
            signed,
            access_key=self._settings.access_key,
            secret_key=self._settings.secret_key,
            region=self._settings.region,
            content_sha256=sha256,
            date=datetime.now(UTC),
        )
        # Not signed: proxies and HTTP libraries may rewrite these.
        signed["Accept-Encoding"] = "identity"
        signed["User-Agent"] = "bundle-extractor"
        if body is not None:
            signed["Content-Length"] = str(length)
        try:
            response = origin.request(
                method,
                f"{path}?{asked}" if asked else path,
                headers=signed,
                body=body,
                read_seconds=self._settings.read_timeout,
            )
        except NotConnected as failed:
            raise NotSent(operation, bucket, _REASONS[failed.code]) from None
        except HttpFailure as failed:
            raise StoreUnavailable(operation, bucket, _REASONS[failed.code]) from None
        except OSError as failed:  # the body's file
            raise StoreUnavailable(
                operation, bucket, f"the file cannot be read: {type(failed).__name__}"
            ) from None
        if 200 <= response.status < 300:
            return response
        raise self._refusal(operation, bucket, response, with_body=method != "HEAD")

    def _address(self, bucket: str, key: str) -> tuple[Origin, str]:
        """Server and path; of the bucket itself where there is no key."""
        host, path = self._host, f"/{_quoted(key)}"
        # A bucket name with dots does not fit a wildcard certificate.
        if self._settings.addressing == "virtual" and "." not in bucket:
            host = f"{bucket}.{host}"
        else:
            path = f"/{_quoted(bucket)}{path}"
        return self._origins.of(self._scheme, host, self._port), path

    def _refusal(
        self, operation: str, bucket: str, response: Response, *, with_body: bool
    ) -> StoreError | WriteRaced:
        try:
            text = self.read_small(operation, bucket, response) if with_body else b""
        except StoreError:
            text = b""  # the status still stands
        finally:
            response.close()
        code = error_code(text)
        return failure(
            operation,
            bucket,
            status=response.status,
            code=code,
            retry_after=response.headers.get("Retry-After"),
            has_foreign_body=bool(text.strip()) and not code,
        )

    def check_no_error_inside(self, operation: str, bucket: str, response: Response) -> None:
        """Read the (normally empty) body of a 2xx to a write; raise what it may report instead."""
        if response.complete and not response.pending:
            return
        try:
            text = self.read_small(operation, bucket, response)
        finally:
            response.close()
        code = error_code(text)
        if code:
            raise failure(operation, bucket, status=response.status, code=code)

    def read_small(self, operation: str, bucket: str, response: Response) -> bytes:
        """The beginning of a body that is expected to be short; the rest is not read."""
        taken = bytearray()
        for chunk in self.chunks(operation, bucket, response):
            taken += chunk
            if len(taken) >= MAX_ERROR_BODY_BYTES:
                break
        return bytes(taken[:MAX_ERROR_BODY_BYTES])

    def chunks(
        self, operation: str, bucket: str, response: Response, *, max_bytes: int | None = None
    ) -> Iterator[bytes]:
        """The body as it arrives. Raises StoreUnavailable if it is cut short or too slow,
        ObjectTooLarge before more than `max_bytes` are handed out."""
        announced = response.headers.get("Content-Length", "")
        if max_bytes is not None and announced.isdecimal() and int(announced) > max_bytes:
            raise ObjectTooLarge(operation, bucket, limit=max_bytes)
        give_up_at = time.monotonic() + self._settings.transfer_timeout
        total = 0
        try:
            while chunk := response.read1():
                total += len(chunk)
                if max_bytes is not None and total > max_bytes:
                    raise ObjectTooLarge(operation, bucket, limit=max_bytes)
                yield chunk
                if time.monotonic() > give_up_at:
                    raise StoreUnavailable(operation, bucket, "the body took too long")
        except HttpFailure as failed:
            raise StoreUnavailable(operation, bucket, _REASONS[failed.code]) from None

    def whole(self, operation: str, bucket: str, response: Response, *, max_bytes: int) -> bytes:
        """All of the body, and done with the answer. Raises as `chunks`."""
        try:
            return b"".join(self.chunks(operation, bucket, response, max_bytes=max_bytes))
        finally:
            response.close()

    def close(self) -> None:
        self._origins.close()


def _quoted(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else quote(name, safe="/~")


def stamp(response: Response) -> tuple[str, str, datetime]:
    """ETag, content type and last-modified time of an answer."""
    headers = response.headers
    return (
        etag_of(headers.get("ETag")),
        headers.get("Content-Type", ""),
        http_date(headers.get("Last-Modified")),
    )


_REASONS = {
    "dns_failed": "no connection",
    "connect_failed": "no connection",
    "connect_timeout": "connecting timed out",
    "tls_failed": "TLS failed; the authority of its certificate may have to be given (ca_file)",
    "read_timeout": "no answer in time",
    "connection_broken": "the connection broke",
    "body_truncated": "the body was cut short",
}
