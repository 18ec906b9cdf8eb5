"""The object store as the rest of the program sees it.

Three implementations keep this contract and run the same test suite: `S3Store` (any S3 server
with conditional writes), `MemoryStore` (simulation) and the latter with scripted faults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Protocol

Body = bytes | Path
"""What is written: bytes, or a file that is streamed and never held in memory as a whole."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """`sha256` is what the writer recorded in the object's metadata, None where it did not."""

    size: int
    etag: str
    last_modified: datetime
    content_type: str
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class StoredObject:
    body: bytes = field(repr=False)
    etag: str
    content_type: str
    last_modified: datetime


@dataclass(frozen=True, slots=True)
class Download:
    """A file written by `download`: SHA-256 (hex) and size in bytes of what arrived."""

    sha256: str
    size: int
    etag: str
    content_type: str
    last_modified: datetime


@dataclass(frozen=True, slots=True)
class ListedObject:
    key: str = field(repr=False)
    size: int
    last_modified: datetime
    etag: str


class PutKind(StrEnum):
    CREATED = "created"
    IDENTICAL = "identical"
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True)
class PutOutcome:
    """What a create-if-absent came to.

    CREATED: our write made the object. IDENTICAL: the object holds exactly our bytes, written by
    us earlier or by another. CONFLICT: it holds other bytes. `etag` is that of the stored object.
    `resolved_ambiguity`: the answer to the write was lost and the outcome was read back; such a
    write reports IDENTICAL, since who created equal bytes cannot be told.
    """

    kind: PutKind
    etag: str
    resolved_ambiguity: bool = False

    @property
    def label(self) -> str:
        """Metric label: the kind, or `ambiguous_resolved`."""
        return "ambiguous_resolved" if self.resolved_ambiguity else self.kind.value


class ObjectStore(Protocol):
    """Safe to call from several threads (the in-memory one from one thread).

    Every call is one attempt: a failure raises a `StoreError` and the caller decides about
    another one. Only the conditional writes read back, to learn what became of them. All calls
    can raise StoreThrottled, StoreUnavailable, AccessDenied, StoreRejected, BucketNotFound.
    """

    def get(self, bucket: str, key: str, *, max_bytes: int) -> StoredObject:
        """Raises ObjectNotFound, ObjectTooLarge."""
        ...

    def head(self, bucket: str, key: str) -> ObjectInfo:
        """Raises ObjectNotFound (also where the bucket is missing: HEAD answers have no body)."""
        ...

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
        """Stream into `destination` (must not exist, made 0600), hashing on the way.

        Raises ObjectNotFound, ObjectTooLarge (by the announced length, and again while reading),
        ChecksumMismatch, StoreUnavailable for a body cut short, FileExistsError, and OSError
        of the local disk. `before_write` is told the number of bytes of each piece before it is
        written; what it raises ends the download. On any failure the file is removed.
        """
        ...

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
        """Create the object unless the key is taken; never overwrites.

        `sha256` (hex) spares hashing the body once more. Raises AmbiguousWrite.
        """
        ...

    def replace_if_match(
        self, bucket: str, key: str, body: bytes, *, etag: str, content_type: str
    ) -> str:
        """Replace the version `etag`; returns the new ETag.

        If the object already holds exactly `body` the call succeeds: that is how a repeated
        call finds the write whose answer it had lost. Raises PreconditionFailed, ObjectNotFound,
        AmbiguousWrite.
        """
        ...

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
        """Unconditional write, for claim-checked payloads and uploads only; returns the ETag."""
        ...

    def delete(self, bucket: str, key: str) -> None:
        """Deleting what is not there succeeds."""
        ...

    def delete_many(self, bucket: str, keys: Iterable[str]) -> None:
        """Deleting what is not there succeeds; raises StoreRejected if some could not be."""
        ...

    def list(
        self, bucket: str, prefix: str, *, start_after: str | None = None
    ) -> Iterator[ListedObject]:
        """All objects under `prefix` in key order, after `start_after`; pages fetched lazily."""
        ...

    def ensure_bucket(self, bucket: str) -> None:
        """Create the bucket if it is missing."""
        ...

    def bucket_exists(self, bucket: str) -> bool: ...
