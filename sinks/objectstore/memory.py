"""An object store in memory, with the S3 store's contract, for the deterministic simulation.

Every request passes through `_request`, which a subclass overrides to inject faults before or
after the effect; the conditional writes on top resolve them with the code the S3 store uses.
Not for several threads.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from sinks.objectstore import conditional
from sinks.objectstore.bodies import PrivateFile, check_key, is_sha256, sha256_of
from sinks.objectstore.conditional import Found
from sinks.objectstore.errors import (
    BucketNotFound,
    ChecksumMismatch,
    ObjectNotFound,
    ObjectTooLarge,
    PreconditionFailed,
    StoreRejected,
)
from sinks.objectstore.protocol import (
    Body,
    Download,
    ListedObject,
    ObjectInfo,
    PutOutcome,
    StoredObject,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Entry:
    body: bytes
    etag: str
    content_type: str
    last_modified: datetime


def _utc_now() -> datetime:
    return datetime.now(UTC)


class MemoryStore:
    """`now` stamps last-modified times; `pause` is what waits between colliding writes."""

    def __init__(
        self,
        *,
        now: Callable[[], datetime] = _utc_now,
        pause: Callable[[int], None] = lambda attempt: None,
    ) -> None:
        self._now = now
        self._pause = pause
        self._buckets: dict[str, dict[str, _Entry]] = {}

    def _request(self, operation: str, bucket: str, key: str, effect: Callable[[], T]) -> T:
        """One request to the store: get (also of `download`), head, put, put_if_absent,
        replace_if_match, delete, list or bucket."""
        return effect()

    def get(self, bucket: str, key: str, *, max_bytes: int) -> StoredObject:
        entry = self._request("get", bucket, key, lambda: self._entry("get", bucket, key))
        if len(entry.body) > max_bytes:
            raise ObjectTooLarge("get", bucket, limit=max_bytes)
        return StoredObject(entry.body, entry.etag, entry.content_type, entry.last_modified)

    def head(self, bucket: str, key: str) -> ObjectInfo:
        def effect() -> ObjectInfo:
            try:
                entry = self._entry("head", bucket, key)
            except BucketNotFound:
                raise ObjectNotFound("head", bucket) from None
            return ObjectInfo(
                size=len(entry.body),
                etag=entry.etag,
                last_modified=entry.last_modified,
                content_type=entry.content_type,
                sha256=hashlib.sha256(entry.body).hexdigest(),
            )

        return self._request("head", bucket, key, effect)

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
        with PrivateFile(destination) as file:
            entry = self._request("get", bucket, key, lambda: self._entry("download", bucket, key))
            if len(entry.body) > max_bytes:
                raise ObjectTooLarge("download", bucket, limit=max_bytes)
            sha256 = hashlib.sha256(entry.body).hexdigest()
            if expected_sha256 is not None and sha256 != expected_sha256:
                raise ChecksumMismatch("download", bucket)
            if before_write is not None:
                before_write(len(entry.body))
            file.write(entry.body)
            file.keep()
        return Download(
            sha256, len(entry.body), entry.etag, entry.content_type, entry.last_modified
        )

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
        data = _read("put_if_absent", bucket, key, body, sha256)
        write = _MemoryWrite(self, "put_if_absent", bucket, key, data, content_type, None)
        return conditional.create(write, pause=self._pause)

    def replace_if_match(
        self, bucket: str, key: str, body: bytes, *, etag: str, content_type: str
    ) -> str:
        data = _read("replace_if_match", bucket, key, body, None)
        write = _MemoryWrite(self, "replace_if_match", bucket, key, data, content_type, etag)
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
        data = _read("put", bucket, key, body, sha256)
        return self._request(
            "put", bucket, key, lambda: self._store("put", bucket, key, data, content_type)
        )

    def delete(self, bucket: str, key: str) -> None:
        check_key("delete", bucket, key)
        self._request(
            "delete", bucket, key, lambda: self._writable("delete", bucket).pop(key, None)
        )

    def delete_many(self, bucket: str, keys: Iterable[str]) -> None:
        for key in keys:
            self.delete(bucket, key)

    def list(
        self, bucket: str, prefix: str, *, start_after: str | None = None
    ) -> Iterator[ListedObject]:
        def effect() -> list[ListedObject]:
            if bucket not in self._buckets:
                raise BucketNotFound("list", bucket)
            return [
                ListedObject(key, len(entry.body), entry.last_modified, entry.etag)
                for key, entry in sorted(self._buckets[bucket].items())
                if key.startswith(prefix) and (start_after is None or key > start_after)
            ]

        yield from self._request("list", bucket, prefix, effect)

    def ensure_bucket(self, bucket: str) -> None:
        self._request("bucket", bucket, "", lambda: self._buckets.setdefault(bucket, {}))

    def bucket_exists(self, bucket: str) -> bool:
        return self._request("bucket", bucket, "", lambda: bucket in self._buckets)

    def _entry(self, operation: str, bucket: str, key: str) -> _Entry:
        check_key(operation, bucket, key)
        if bucket not in self._buckets:
            raise BucketNotFound(operation, bucket)
        try:
            return self._buckets[bucket][key]
        except KeyError:
            raise ObjectNotFound(operation, bucket) from None

    def _writable(self, operation: str, bucket: str) -> dict[str, _Entry]:
        try:
            return self._buckets[bucket]
        except KeyError:
            raise BucketNotFound(operation, bucket, kind="systemic") from None

    def _store(self, operation: str, bucket: str, key: str, body: bytes, content_type: str) -> str:
        # MD5 as real stores do it: equal bytes get equal ETags, also across writers.
        etag = hashlib.md5(body, usedforsecurity=False).hexdigest()
        self._writable(operation, bucket)[key] = _Entry(body, etag, content_type, self._now())
        return etag


@dataclass(slots=True)
class _MemoryWrite:
    """A conditional write: of a new object, or (`etag` given) of the next version of one."""

    store: MemoryStore
    operation: str
    bucket: str
    key: str
    body: bytes
    content_type: str
    etag: str | None

    def send(self) -> str:
        return self.store._request(self.operation, self.bucket, self.key, self._effect)

    def _effect(self) -> str:
        stored = self.store._writable(self.operation, self.bucket).get(self.key)
        if self.etag is None and stored is not None:
            raise PreconditionFailed(self.operation, self.bucket)
        if self.etag is not None:
            if stored is None:
                raise ObjectNotFound(self.operation, self.bucket)
            if stored.etag != self.etag:
                raise PreconditionFailed(self.operation, self.bucket)
        return self.store._store(
            self.operation, self.bucket, self.key, self.body, self.content_type
        )

    def look(self) -> Found | None:
        try:
            info = self.store.head(self.bucket, self.key)
        except ObjectNotFound:
            return None
        return Found(info.etag, info.sha256 == hashlib.sha256(self.body).hexdigest())


def _read(operation: str, bucket: str, key: str, body: Body, sha256: str | None) -> bytes:
    check_key(operation, bucket, key)
    data = body if isinstance(body, bytes) else body.read_bytes()
    if sha256 is not None and (not is_sha256(sha256) or sha256_of(data) != sha256):
        raise StoreRejected(operation, bucket, "the body does not have the SHA-256 given for it")
    return data
