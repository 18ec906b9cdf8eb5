"""The service's HTTP contract: paths, statuses, error codes. Defined once, used from here.

`GET /v1/discovery` is generated from these values, so what is documented there is what is served.
"""

from __future__ import annotations

import math
from enum import StrEnum

CONTRACT_VERSION = "1"

SUBMIT_PATH = "/v1/pdf/extract_images"
JOB_STATUS_PATH = "/v1/pdf/job/get/{job_id}"
JOB_PATH = "/v1/pdf/job/{job_id}"
FILE_PATH = "/v1/files/{token}"
DISCOVERY_PATH = "/v1/discovery"

LONGEST_LONG_POLL_S = 20.0
LONGEST_IDEMPOTENCY_KEY = 255
# A PDF header may be preceded by other bytes; readers look for it in the first 1,024 bytes
# (ISO 32000-2 Annex I / Adobe's implementation note 13).
PDF_HEADER_WINDOW = 1024


class JobStatus(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"

    @property
    def is_terminal(self) -> bool:
        return self in (JobStatus.COMPLETED, JobStatus.FAILED)


class JobError(StrEnum):
    """Why a job failed. Each is the document's own fault or what the document did to its worker."""

    ENCRYPTED = "encrypted"
    UNREADABLE = "unreadable"
    LIMIT_EXCEEDED = "limit_exceeded"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    CRASHED = "crashed"


class RequestError(StrEnum):
    """Why a request was refused; no job was made."""

    INVALID_REQUEST = "invalid_request"
    UNAUTHORIZED = "unauthorized"
    IDEMPOTENCY_MISMATCH = "idempotency_mismatch"
    TOO_LARGE = "too_large"
    NOT_A_PDF = "not_a_pdf"
    QUEUE_FULL = "queue_full"
    STORAGE_FULL = "storage_full"
    UPLOAD_TIMEOUT = "upload_timeout"
    JOB_NOT_FOUND = "job_not_found"
    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    BAD_FILE_TOKEN = "bad_file_token"  # noqa: S105 (an error code)
    FILE_EXPIRED = "file_expired"
    FILE_GONE = "file_gone"
    INTERNAL = "internal"


class ApiError(Exception):
    """A refusal with its HTTP status; `which` names the field or the limit, never a value."""

    def __init__(
        self,
        status: int,
        code: RequestError,
        message: str,
        *,
        which: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.which = which
        self.retry_after_s = retry_after_s

    def body(self) -> dict[str, object]:
        error: dict[str, object] = {"code": self.code.value, "message": self.message}
        if self.which is not None:
            error["which"] = self.which
        return {"error": error}

    def headers(self) -> dict[str, str]:
        headers: dict[str, str] = {}
        if self.retry_after_s is not None:
            headers.update(retry_headers(self.retry_after_s))
        if self.status == 401:
            headers["www-authenticate"] = "Bearer"
        return headers


def retry_headers(seconds: float) -> dict[str, str]:
    """`Retry-After` in whole seconds (RFC 9110 §10.2.3) and the exact hint in `retry-after-ms`."""
    return {
        "retry-after": str(math.ceil(seconds)),
        "retry-after-ms": str(round(seconds * 1000)),
    }
