"""The object store contract on any S3 server with conditional writes."""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

from sinks.http1 import joined
from sinks.objectstore import conditional, listing
from sinks.objectstore.bodies import PrivateFile, check_key, is_sha256, sha256_of, size_of
from sinks.objectstore.errors import (
    ChecksumMismatch,
    ObjectNotFound,
    StoreError,
    StoreRejected,
    StoreUnavailable,
)
from sinks.objectstore.protocol import (
    Body,
    Download,
    ListedObject,
    ObjectInfo,
    PutOutcome,
    StoredObject,
)
from sinks.objectstore.settings import S3Settings
from sinks.objectstore.transport import Transport, stamp
from sinks.objectstore.writes import SHA256_METADATA, Write

if TYPE_CHECKING:
    from minio import Minio

    from sinks.objectstore.everyday import EverydayCalls

Observe = Callable[[str, str, float, int], None]
"""(operation, outcome, seconds, bytes of body sent or received); must not raise."""


def _observe_nothing(operation: str, outcome: str, seconds: float, size: int) -> None:
    pass


class S3Store:
    """`ObjectStore` over HTTP, for as many threads as `settings.max_connections`."""

    def __init__(
        self,
        settings: S3Settings,
        *,
        observe: Observe = _observe_nothing,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`sleep` is used only between conditional writes that collide."""
        self._settings = settings
        self._observe = observe
        self._sleep = sleep
        self._transport = Transport(settings)

    @cached_property
    def _everyday(self) -> EverydayCalls:
        from sinks.objectstore.everyday import EverydayCalls

        return EverydayCalls(self._settings)

    @property
    def minio(self) -> Minio:
        """The minio client, for what is not on the hot path (lifecycle rules, versioning, ...). It
        makes one attempt too. Not for conditional writes."""
        return self._everyday.client

    def close(self) -> None:
        self._transport.close()
        if "_everyday" in self.__dict__:
            self._everyday.close()

    # ---- reading

    def get(self, bucket: str, key: str, *, max_bytes: int) -> StoredObject:
        with self._measured("get", bucket, key) as measure:
            response = self._transport.send("GET", bucket, key, operation="get")
            body = self._transport.whole("get", bucket, response, max_bytes=max_bytes)
            measure.size = len(body)
            return StoredObject(body, *stamp(response))

    def head(self, bucket: str, key: str) -> ObjectInfo:
        with self._measured("head", bucket, key):
            return self._head("head", bucket, key)

    def download(
        self,
        bucket: str,
        key: str,
        destination: Path,
        *,
        max_bytes: int,
        expected_sha256: str | None = None,
        before_write: Callable[[int], None] | None = None,
    ) -> Download:
        with self._measured("download", bucket, key) as measure, PrivateFile(destination) as file:
            response = self._transport.send("GET", bucket, key, operation="download")
            try:
                digest = hashlib.sha256()
                chunks = self._transport.chunks("download", bucket, response, max_bytes=max_bytes)
                for chunk in joined(chunks):
                    digest.update(chunk)
                    if before_write is not None:
                        before_write(len(chunk))
                    file.write(chunk)
                    measure.size += len(chunk)
            finally:
                response.close()
            if expected_sha256 is not None and digest.hexdigest() != expected_sha256:
                raise ChecksumMismatch("download", bucket)
            file.keep()
            return Download(digest.hexdigest(), measure.size, *stamp(response))

    # ---- writing

    def put_if_absent(
        self,
        bucket: str,
        key: str,
        body: Body,
        *,
        content_type: str,
        sha256: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> PutOutcome:
        with self._measured("put_if_absent", bucket, key) as measure:
            write = self._write(
                operation="put_if_absent",
                bucket=bucket,
                key=key,
                body=body,
                content_type=content_type,
                sha256=sha256,
                headers=headers,
            )
            write.headers["If-None-Match"] = "*"
            measure.size = write.size
            outcome = conditional.create(write, pause=self._pause)
            measure.outcome = outcome.label
            return outcome

    def replace_if_match(
        self, bucket: str, key: str, body: bytes, *, etag: str, content_type: str
    ) -> str:
        with self._measured("replace_if_match", bucket, key) as measure:
            write = self._write(
                operation="replace_if_match",
                bucket=bucket,
                key=key,
                body=body,
                content_type=content_type,
            )
            write.headers["If-Match"] = f'"{etag}"'
            measure.size = write.size
            return conditional.replace(write, etag=etag, pause=self._pause)

    def put(
        self,
        bucket: str,
        key: str,
        body: Body,
        *,
        content_type: str,
        sha256: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> str:
        with self._measured("put", bucket, key) as measure:
            write = self._write(
                operation="put",
                bucket=bucket,
                key=key,
                body=body,
                content_type=content_type,
                sha256=sha256,
                headers=headers,
            )
            measure.size = write.size
            return write.send()

    def delete(self, bucket: str, key: str) -> None:
        with self._measured("delete", bucket, key) as measure:
            try:
                response = self._transport.send("DELETE", bucket, key, operation="delete")
            except ObjectNotFound:
                measure.outcome = ObjectNotFound.outcome
                return
            self._transport.check_no_error_inside("delete", bucket, response)

    # ---- listing

    def list(
        self, bucket: str, prefix: str, *, start_after: str | None = None
    ) -> Iterator[ListedObject]:
        with self._measured("list", bucket) as measure:
            token: str | None = None
            while True:
                page = self._page(bucket, listing.parameters(prefix, start_after, token))
                for item in page.objects:
                    handed_out = time.perf_counter()
                    yield item
                    measure.elsewhere += time.perf_counter() - handed_out
                token = page.next_token
                if token is None:
                    return

    # ---- everyday calls, through the minio client

    def delete_many(self, bucket: str, keys: Iterable[str]) -> None:
        with self._measured("delete_many", bucket):
            self._everyday.delete_many(bucket, keys)

    def ensure_bucket(self, bucket: str) -> None:
        with self._measured("ensure_bucket", bucket):
            self._everyday.ensure_bucket(bucket)

    def bucket_exists(self, bucket: str) -> bool:
        with self._measured("bucket_exists", bucket):
            return self._everyday.bucket_exists(bucket)

    # ---- inside

    def _page(self, bucket: str, parameters: Mapping[str, str]) -> listing.Page:
        response = self._transport.send("GET", bucket, "", operation="list", query=parameters)
        body = self._transport.whole("list", bucket, response, max_bytes=listing.MAX_PAGE_BYTES)
        try:
            return listing.parse(body)
        except listing.NoListing as wrong:
            raise StoreUnavailable("list", bucket, f"the answer is no listing: {wrong}") from None

    def _head(self, operation: str, bucket: str, key: str) -> ObjectInfo:
        response = self._transport.send("HEAD", bucket, key, operation=operation)
        response.close()
        etag, content_type, last_modified = stamp(response)
        length = response.headers.get("Content-Length", "")
        if not length.isdecimal():
            raise StoreUnavailable(operation, bucket, "the answer has no Content-Length")
        recorded = response.headers.get(SHA256_METADATA)
        return ObjectInfo(
            size=int(length),
            etag=etag,
            last_modified=last_modified,
            content_type=content_type,
            sha256=recorded if is_sha256(recorded) else None,
        )

    def _write(
        self,
        *,
        operation: str,
        bucket: str,
        key: str,
        body: Body,
        content_type: str,
        sha256: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Write:
        if sha256 is not None and not is_sha256(sha256):
            raise StoreRejected(operation, bucket, "sha256 must be 64 lower-case hex digits")
        digest = sha256 or sha256_of(body)
        return Write(
            transport=self._transport,
            operation=operation,
            bucket=bucket,
            key=key,
            body=body,
            size=size_of(body),
            sha256=digest,
            headers={
                **self._settings.write_headers,
                **(headers or {}),
                "Content-Type": content_type,
                SHA256_METADATA: digest,
            },
            look_up=self._head,
        )

    def _pause(self, attempt: int) -> None:
        self._sleep(random.uniform(0.5, 1.0) * min(0.05 * 2**attempt, 2.0))

    def _measured(self, operation: str, bucket: str, key: str | None = None) -> _Measured:
        return _Measured(self._observe, operation, bucket, key)


class _Measured:
    """A `with` block around a call: reports it to `observe`; whatever it ends with is ours or the
    local disk's. A class, for every document makes five of them."""

    __slots__ = (
        "_bucket",
        "_key",
        "_observe",
        "_operation",
        "_started",
        "elsewhere",
        "outcome",
        "size",
    )

    def __init__(self, observe: Observe, operation: str, bucket: str, key: str | None) -> None:
        self._observe = observe
        self._operation = operation
        self._bucket = bucket
        self._key = key
        self.outcome = "ok"
        self.size = 0
        self.elsewhere = 0.0
        """Seconds the caller took between the items of a listing."""

    def __enter__(self) -> Self:
        self._started = time.perf_counter()
        if self._key is not None:
            try:
                check_key(self._operation, self._bucket, self._key)
            except StoreError as refused:
                self.__exit__(type(refused), refused, None)
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        if isinstance(error, StoreError):
            self.outcome = error.outcome
        elif isinstance(error, ValueError):  # nothing that could be sent
            self.outcome = StoreRejected.outcome
        elif isinstance(error, Exception):  # the local disk's, for example
            self.outcome = StoreError.outcome
        seconds = time.perf_counter() - self._started - self.elsewhere
        self._observe(self._operation, self.outcome, seconds, self.size)
        if isinstance(error, ValueError):
            raise StoreRejected(
                self._operation, self._bucket, "an invalid name or argument", kind="document"
            ) from None
