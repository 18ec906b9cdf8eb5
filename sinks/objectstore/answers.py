"""What an S3 answer means: from HTTP status and S3 error code to an error class. No I/O.

Status alone does not decide (403 may be a skewed clock, 404 a missing bucket or key), nor does
the code alone (HEAD answers and some proxies carry none).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from sinks.objectstore.conditional import WriteRaced
from sinks.objectstore.errors import (
    AccessDenied,
    BucketNotFound,
    ObjectNotFound,
    PreconditionFailed,
    StoreError,
    StoreRejected,
    StoreThrottled,
    StoreUnavailable,
)

MAX_ERROR_BODY_BYTES = 16 * 1024
MAX_RETRY_AFTER_SECONDS = 3600.0

READS = frozenset({"get", "head", "download"})
CONDITIONAL_WRITES = frozenset({"put_if_absent", "replace_if_match"})

_CODE = re.compile(rb"<Code>\s*([A-Za-z][A-Za-z0-9.]{0,63})\s*</Code>")
_THROTTLED = frozenset(
    {"SlowDown", "ServiceUnavailable", "Throttling", "ThrottlingException", "TooManyRequests"}
    | {"RequestLimitExceeded", "BandwidthLimitExceeded"}
)
_UNAVAILABLE = frozenset({"InternalError", "RequestTimeout", "OperationAborted"})
_CREDENTIALS = frozenset(
    {"InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken"}
    | {"RequestTimeTooSkewed", "TokenRefreshRequired", "AuthorizationHeaderMalformed"}
    | {"InvalidTokenId", "MissingSecurityHeader", "RequestExpired"}
)
_DOCUMENT = frozenset(
    {"InvalidBucketName", "KeyTooLongError", "KeyTooLong", "InvalidObjectName", "InvalidURI"}
    | {"InvalidObjectState", "EntityTooLarge"}
)


def error_code(body: bytes) -> str:
    """The S3 error code in an error document, '' if there is none.

    A pattern, not an XML parser: the answer is not trusted, and one short word is all we want.
    """
    found = _CODE.search(body[:MAX_ERROR_BODY_BYTES]) if b"<Error" in body else None
    return found.group(1).decode() if found else ""


def plain_code(code: str) -> str:
    """`code` if it is the short identifier an S3 error code should be, else ''."""
    return code if re.fullmatch(r"[A-Za-z][A-Za-z0-9.]{0,63}", code) else ""


def failure(
    operation: str,
    bucket: str,
    *,
    status: int,
    code: str,
    retry_after: str | None = None,
    has_foreign_body: bool = False,
) -> StoreError | WriteRaced:
    """The error an unsuccessful answer stands for.

    `status` 200 with an error code is an error too: a store that has begun to answer can only
    report what went wrong later in the body. `has_foreign_body`: a body that is no S3 error
    document, as a proxy or a web server at the wrong address sends it.
    """
    said = f"HTTP {status}" + (f", {code}" if code else "")
    reading = operation in READS
    if operation in CONDITIONAL_WRITES:
        if status == 412 or code == "PreconditionFailed":
            return PreconditionFailed(operation, bucket)
        if code == "ConditionalRequestConflict" or (
            status == 409 and code not in {"NoSuchBucket", "InvalidBucketState"}
        ):
            return WriteRaced()
    if code in _THROTTLED or status == 429:
        return StoreThrottled(operation, bucket, said, retry_after=retry_seconds(retry_after))
    if code in _UNAVAILABLE or (status >= 500 and status != 501) or status == 408:
        return StoreUnavailable(operation, bucket, said)
    if code == "NoSuchBucket":
        return BucketNotFound(operation, bucket, kind="document" if reading else "systemic")
    if code in ("NoSuchKey", "NoSuchVersion"):
        return ObjectNotFound(operation, bucket)
    if status in (401, 403) or code in _CREDENTIALS:
        return AccessDenied(
            operation, bucket, said, credentials_rejected=code in _CREDENTIALS or status == 401
        )
    if status == 404 and has_foreign_body:
        return StoreUnavailable(
            operation, bucket, "HTTP 404 that is no S3 answer; is endpoint_url an S3 store?"
        )
    if status == 404:
        return ObjectNotFound(operation, bucket)
    if 300 <= status < 400:
        return StoreRejected(
            operation,
            bucket,
            f"{said}: redirects are not followed; endpoint_url or region is not the bucket's",
            kind="document" if reading else "systemic",
        )
    if status in (405, 501) or code in ("NotImplemented", "MethodNotAllowed"):
        return StoreRejected(
            operation, bucket, f"{said}: this store lacks the call", kind="systemic"
        )
    return StoreRejected(operation, bucket, said, kind="document" if code in _DOCUMENT else None)


def retry_seconds(header: str | None, *, now: datetime | None = None) -> float | None:
    """A Retry-After header in seconds, within 0 and an hour; None if absent or garbage."""
    if header is None:
        return None
    text = header.strip()[:64]
    try:
        seconds = float(text) if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text) else None
        if seconds is None:
            at = parsedate_to_datetime(text)
            at = at if at.tzinfo else at.replace(tzinfo=UTC)
            seconds = (at - (now or datetime.now(UTC))).total_seconds()
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_SECONDS)


def http_date(header: str | None) -> datetime:
    """A Last-Modified header; the epoch if absent or garbage (it is only ever informational)."""
    try:
        at = parsedate_to_datetime(header or "")
    except (ValueError, TypeError, OverflowError):
        return datetime.fromtimestamp(0, UTC)
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def etag_of(header: str | None) -> str:
    """An ETag without its quotes."""
    return (header or "").removeprefix("W/").strip('"')
