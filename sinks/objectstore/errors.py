"""What can go wrong with the object store, sorted by what the caller should do about it.

Every message names the operation and the bucket and nothing else that came from outside: an
object key may contain a file name, and with it a patient's name. The store's own message text
is dropped for the same reason; only its error *code* (a short identifier) is kept.

`kind` tells the caller what the failure speaks about:

* ``document``: this object only; a retry gives the same answer.
* ``attempt``: this attempt; a bounded number of retries is worth it.
* ``systemic``: the store or our access to it; no document is to blame.
"""

from __future__ import annotations

from typing import ClassVar, Literal

ErrorKind = Literal["document", "attempt", "systemic"]


class StoreError(Exception):
    """Base of all store failures. `outcome` is its metric label, bounded by the class list."""

    default_kind: ClassVar[ErrorKind] = "attempt"
    outcome: ClassVar[str] = "error"
    summary: ClassVar[str] = "the object store failed"

    def __init__(
        self, operation: str, bucket: str, detail: str = "", *, kind: ErrorKind | None = None
    ) -> None:
        """`detail` must be our own words, never text from the store, a key or content."""
        self.operation = operation
        self.bucket = bucket
        self.detail = detail
        self.kind: ErrorKind = kind or self.default_kind
        super().__init__(operation, bucket, detail)

    def __str__(self) -> str:
        tail = f" ({self.detail})" if self.detail else ""
        return f"{self.operation} in bucket {self.bucket[:63]!r}: {self.summary}{tail}"


class ObjectNotFound(StoreError):
    """No object has that key (or only a delete marker does)."""

    default_kind = "document"
    outcome = "not_found"
    summary = "no such object"


class BucketNotFound(StoreError):
    """The bucket does not exist.

    ``document`` when reading (an event may name any source bucket), ``systemic`` when writing:
    the output bucket is ours.
    """

    default_kind = "document"
    outcome = "bucket_not_found"
    summary = "no such bucket"


class ObjectTooLarge(StoreError):
    """The object is larger than `limit` bytes; nothing beyond the limit was read."""

    default_kind = "document"
    outcome = "too_large"
    summary = "the object is larger than allowed"

    def __init__(self, operation: str, bucket: str, *, limit: int) -> None:
        self.limit = limit
        super().__init__(operation, bucket, f"limit {limit} bytes")


class ChecksumMismatch(StoreError):
    """All bytes arrived and their SHA-256 is not the expected one."""

    default_kind = "document"
    outcome = "checksum_mismatch"
    summary = "the bytes are not those that were announced"


class PreconditionFailed(StoreError):
    """The stored object is not the version the caller had read."""

    default_kind = "document"
    outcome = "precondition_failed"
    summary = "the object was changed by another writer"


class StoreRejected(StoreError):
    """The store understood and refused: an invalid name, a redirect, an unsupported call."""

    outcome = "rejected"
    summary = "the store refused the request"


class StoreThrottled(StoreError):
    """429 or 503 SlowDown. `retry_after` is the store's hint in seconds, if it gave one."""

    default_kind = "systemic"
    outcome = "throttled"
    summary = "the store asks to slow down"

    def __init__(
        self, operation: str, bucket: str, detail: str = "", *, retry_after: float | None = None
    ) -> None:
        self.retry_after = retry_after
        super().__init__(operation, bucket, detail)


class StoreUnavailable(StoreError):
    """Time-out, broken connection, short body or 5xx: no answer that can be trusted."""

    default_kind = "systemic"
    outcome = "unavailable"
    summary = "the store gave no usable answer"


class AccessDenied(StoreError):
    """401/403. `credentials_rejected`: the key itself is wrong or expired, whatever the object.

    When false, the store knows us and denies this bucket or object only.
    """

    default_kind = "systemic"
    outcome = "access_denied"
    summary = "access denied"

    def __init__(
        self, operation: str, bucket: str, detail: str = "", *, credentials_rejected: bool = False
    ) -> None:
        self.credentials_rejected = credentials_rejected
        super().__init__(operation, bucket, detail)


class AmbiguousWrite(StoreError):
    """A conditional write whose answer was lost, and the read to find out failed too.

    Calling the same conditional write again is safe: it finds its own bytes, if they are there.
    ``systemic`` where the read failed for such a reason (an outage often shows first as this).
    """

    outcome = "ambiguous"
    summary = "it is unknown whether the write took place; write it again with the same bytes"
