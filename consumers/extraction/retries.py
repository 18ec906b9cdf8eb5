"""The one table that says what a failure means. Everything that fails is looked up here.

=============  ==================================================================================
verdict        what the life-cycle does
=============  ==================================================================================
THROTTLED      waits as told (clamped to the deadline) behind the provider's gate; costs nothing
ATTEMPT        costs one of the call's attempts, then backs off within the retry budget
AMBIGUOUS      a submit that may have made a job: the same key where that is harmless, otherwise
               looked up and, within ``max_resubmits``, sent again
DOCUMENT       this document's own fault: a dead letter with its reason
SYSTEMIC       nobody's document is at fault: the breaker opens, intake pauses, the call is made
               again when the breaker lets it; costs nothing and never becomes a dead letter
BUG            an error that is in no row: logged with its stack, ``internal_error``
=============  ==================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus

from consumers.extraction.documents.model import DocumentRejected
from consumers.extraction.sandbox.errors import SandboxClosed, SandboxError, SandboxUnavailable
from consumers.extraction.workspace import LargerThanQuota, WorkspaceFull
from consumers.providers.errors import (
    DocumentRefused,
    NotAuthorized,
    OutOfCredit,
    ProviderError,
    ResponseUnsafe,
)
from schemas.reasons import Reason
from sinks.objectstore.errors import (
    AccessDenied,
    BucketNotFound,
    ChecksumMismatch,
    ObjectNotFound,
    ObjectTooLarge,
    StoreError,
    StoreRejected,
    StoreThrottled,
)


class Verdict(StrEnum):
    THROTTLED = "throttled"
    ATTEMPT = "attempt"
    AMBIGUOUS = "ambiguous"
    DOCUMENT = "document"
    SYSTEMIC = "systemic"
    BUG = "bug"


@dataclass(frozen=True, slots=True)
class Classified:
    """``code`` is bounded and safe to log. ``decisive``: one such failure says it all (401), so the
    breaker need not wait for more of them. ``reason`` of an ATTEMPT: for when none is left."""

    verdict: Verdict
    code: str
    reason: Reason | None = None
    retry_after: float | None = None
    decisive: bool = False


GATEWAY_STATUSES = frozenset(
    {HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT}
)
"""Answers of what stands before the service: they say nothing about the document."""


def classify(error: Exception) -> Classified:
    if isinstance(error, ProviderError):
        return _provider(error)
    if isinstance(error, StoreError):
        return _store(error)
    if isinstance(error, DocumentRejected):
        return Classified(Verdict.DOCUMENT, error.reason, Reason(error.reason))
    if isinstance(error, SandboxError):
        return Classified(Verdict.DOCUMENT, error.reason, Reason(error.reason))
    if isinstance(error, SandboxUnavailable | SandboxClosed):
        return Classified(Verdict.SYSTEMIC, type(error).__name__, decisive=True)
    if isinstance(error, WorkspaceFull):
        return Classified(Verdict.SYSTEMIC, "workspace_full", decisive=True)
    if isinstance(error, LargerThanQuota):
        return Classified(Verdict.DOCUMENT, "temp_quota", Reason.TOO_LARGE)
    if isinstance(error, FileNotFoundError):
        # A temporary file went away under the call: waiting would not bring it back.
        return Classified(Verdict.ATTEMPT, "file_gone", Reason.INTERNAL_ERROR)
    if isinstance(error, OSError):
        return Classified(Verdict.SYSTEMIC, f"os_error_{error.errno}", decisive=True)
    return Classified(Verdict.BUG, type(error).__name__[:64], Reason.INTERNAL_ERROR)


def _provider(error: ProviderError) -> Classified:
    if error.kind == "throttled":
        return Classified(Verdict.THROTTLED, error.code, retry_after=error.retry_after)
    if error.kind == "ambiguous":
        return Classified(Verdict.AMBIGUOUS, error.code, retry_after=error.retry_after)
    if isinstance(error, ResponseUnsafe):
        return Classified(Verdict.DOCUMENT, error.code, Reason.PROVIDER_UNSAFE)
    if error.code == Reason.IMAGE_TOO_LARGE.value:  # ours, of an image that was cut off on its way
        return Classified(Verdict.DOCUMENT, error.code, Reason.IMAGE_TOO_LARGE)
    if isinstance(error, DocumentRefused) or error.kind == "document":
        return Classified(Verdict.DOCUMENT, error.code, Reason.PROVIDER_REFUSED)
    if error.kind == "systemic" or error.status in GATEWAY_STATUSES:
        decisive = isinstance(error, NotAuthorized | OutOfCredit)
        return Classified(Verdict.SYSTEMIC, error.code, decisive=decisive)
    return Classified(Verdict.ATTEMPT, error.code, retry_after=error.retry_after)


def _store(error: StoreError) -> Classified:
    code = type(error).__name__
    if isinstance(error, ObjectNotFound):
        return Classified(Verdict.DOCUMENT, code, Reason.SOURCE_MISSING)
    if isinstance(error, BucketNotFound) and error.kind == "document":
        return Classified(Verdict.DOCUMENT, code, Reason.SOURCE_MISSING)
    if isinstance(error, ObjectTooLarge):
        return Classified(Verdict.DOCUMENT, code, Reason.TOO_LARGE)
    if isinstance(error, ChecksumMismatch):
        return Classified(Verdict.DOCUMENT, code, Reason.CHECKSUM_MISMATCH)
    if isinstance(error, StoreThrottled):
        return Classified(Verdict.THROTTLED, code, retry_after=error.retry_after)
    if isinstance(error, AccessDenied) and not error.credentials_rejected:
        if error.operation == "download":
            # Perhaps this one object only: given up when others can be read meanwhile.
            return Classified(Verdict.ATTEMPT, code, Reason.SOURCE_DENIED)
        return Classified(Verdict.SYSTEMIC, code, decisive=True)
    if isinstance(error, StoreRejected):
        return Classified(Verdict.ATTEMPT, code)
    if error.kind == "document":
        return Classified(Verdict.DOCUMENT, code, Reason.STORE_CONFLICT)
    return Classified(Verdict.SYSTEMIC, code, decisive=isinstance(error, AccessDenied))
