"""Wrappers that count: what goes through them is the provider's, the store's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from consumers.metrics import Metrics
from consumers.providers import errors
from consumers.providers.protocol import (
    Document,
    FetchedImage,
    JobStatus,
    Provider,
    RemoteImage,
    Submission,
    SubmitOptions,
)
from sinks.objectstore import (
    AmbiguousWrite,
    Body,
    Download,
    ListedObject,
    ObjectInfo,
    ObjectStore,
    PreconditionFailed,
    PutOutcome,
    StoredObject,
)

Value = TypeVar("Value")

_OUTCOMES: tuple[tuple[type[Exception], str], ...] = (
    (errors.Throttled, "throttled"),
    (errors.Truncated, "truncated"),
    (errors.CallFailed, "failed"),
    (errors.SubmitUnknown, "unknown"),
    (errors.JobNotFound, "not_found"),
    (errors.ImageExpired, "expired"),
    (errors.DocumentRefused, "refused"),
    (errors.ResponseUnsafe, "unsafe"),
    (errors.ServiceUnavailable, "unavailable"),
    (errors.NotAuthorized, "unauthorized"),
    (errors.OutOfCredit, "out_of_credit"),
)
"""Narrower kinds first. What is in none of them is `error`."""


def outcome_of(error: Exception) -> str:
    """The `outcome` label of a failed call."""
    return next((name for kind, name in _OUTCOMES if isinstance(error, kind)), "error")


class ObservedProvider:
    """A `Provider` whose calls are timed and counted, in the thread that makes them."""

    def __init__(self, provider: Provider, metrics: Metrics) -> None:
        self._provider = provider
        self._metrics = metrics
        self.name = provider.name
        self.abilities = provider.abilities

    def submit(self, document: Document, *, key: str, options: SubmitOptions) -> Submission:
        return self._call(
            "submit", lambda: self._provider.submit(document, key=key, options=options)
        )

    def find(self, key: str) -> str | None:
        return self._call("find", lambda: self._provider.find(key))

    def poll(self, job_id: str) -> JobStatus:
        return self._call("poll", lambda: self._provider.poll(job_id))

    def images(self, job_id: str, document: Document | None) -> tuple[RemoteImage, ...]:
        return self._call("images", lambda: self._provider.images(job_id, document))

    def fetch_image(
        self, job_id: str, image: RemoteImage, destination: Path, *, max_bytes: int
    ) -> FetchedImage:
        return self._call(
            "download",
            lambda: self._provider.fetch_image(job_id, image, destination, max_bytes=max_bytes),
        )

    def forget(self, job_id: str) -> None:
        self._call("forget", lambda: self._provider.forget(job_id))

    def close(self) -> None:
        self._provider.close()

    def _call(self, operation: str, fn: Callable[[], Value]) -> Value:
        started, outcome = time.perf_counter(), "ok"
        try:
            return fn()
        except Exception as error:
            outcome = outcome_of(error)
            raise
        finally:
            seconds = time.perf_counter() - started
            self._metrics.provider_calls.labels(self.name, operation, outcome).inc()
            self._metrics.provider_call_seconds.labels(self.name, operation).observe(seconds)


class CountedWrites:
    """An `ObjectStore` that counts how conditional writes of one kind of object came out."""

    def __init__(self, store: ObjectStore, kind: str, metrics: Metrics) -> None:
        """``kind``: the `object` label."""
        self._store = store
        self._kind = kind
        self._metrics = metrics

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
        try:
            outcome = self._store.put_if_absent(
                bucket, key, body, content_type=content_type, sha256=sha256, headers=headers
            )
        except AmbiguousWrite:
            self._count("ambiguous")
            raise
        self._count(outcome.label)
        return outcome

    def replace_if_match(
        self, bucket: str, key: str, body: bytes, *, etag: str, content_type: str
    ) -> str:
        try:
            replaced = self._store.replace_if_match(
                bucket, key, body, etag=etag, content_type=content_type
            )
        except PreconditionFailed:
            self._count("lost_race")
            raise
        except AmbiguousWrite:
            self._count("ambiguous")
            raise
        self._count("replaced")
        return replaced

    def _count(self, outcome: str) -> None:
        self._metrics.conditional_writes.labels(self._kind, outcome).inc()

    # -- as they are -------------------------------------------------------------------------

    def get(self, bucket: str, key: str, *, max_bytes: int) -> StoredObject:
        return self._store.get(bucket, key, max_bytes=max_bytes)

    def head(self, bucket: str, key: str) -> ObjectInfo:
        return self._store.head(bucket, key)

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
        return self._store.download(
            bucket,
            key,
            destination,
            max_bytes=max_bytes,
            expected_sha256=expected_sha256,
            before_write=before_write,
        )

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
        return self._store.put(
            bucket, key, body, content_type=content_type, sha256=sha256, headers=headers
        )

    def delete(self, bucket: str, key: str) -> None:
        self._store.delete(bucket, key)

    def delete_many(self, bucket: str, keys: Iterable[str]) -> None:
        self._store.delete_many(bucket, keys)

    def list(
        self, bucket: str, prefix: str, *, start_after: str | None = None
    ) -> Iterator[ListedObject]:
        return self._store.list(bucket, prefix, start_after=start_after)

    def ensure_bucket(self, bucket: str) -> None:
        self._store.ensure_bucket(bucket)

    def bucket_exists(self, bucket: str) -> bool:
        return self._store.bucket_exists(bucket)
