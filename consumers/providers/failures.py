"""What a service's answer means when it is not the one we wanted: a pure table.

A code decides before a status does, because services put throttles into HTTP 400, failures into
HTTP 200 and quota errors into HTTP 429. What is taken from an answer is its code only; its message
text may hold anything. So may what only has the form of a code, such as a file's name, a birth date
or our own secret: see `bounded_code` and `repeats`.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from consumers.providers.errors import (
    CallFailed,
    DocumentRefused,
    JobNotFound,
    NotAuthorized,
    OutOfCredit,
    ProviderError,
    ResponseUnsafe,
    ServiceUnavailable,
    SubmitUnknown,
    Throttled,
)

SUBMIT = "submit"
"""The one operation that may have had an effect although it failed, and that names no job."""

UNRECOGNISED = "unrecognised"
"""Shown for a code or status word that is neither known nor only words."""

_CODE = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_WORDS = re.compile(r"(?=.{1,40}$)[A-Za-z]+([_.-][A-Za-z]+)*")
_HTTP_STATUS = re.compile(r"[1-5][0-9]{2}")
_FRAGMENT = 8
"""So many characters of a secret are not there by chance."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a service's error code means: which error, and under which code (None: its own)."""

    error: type[ProviderError]
    code: str | None = None


Codes = Mapping[str, Meaning]
"""By the service's code in lower case with `-`, `.` and ` ` as `_`."""

KEY_MISMATCH = Meaning(DocumentRefused, "idempotency_mismatch")
KEY_IN_USE = Meaning(Throttled, "idempotency_key_in_use")

COMMON_CODES: Codes = {
    "insufficient_credit": Meaning(OutOfCredit),
    "insufficient_credits": Meaning(OutOfCredit),
    "payment_required": Meaning(OutOfCredit),
    "quota_exceeded": Meaning(OutOfCredit),
    "insufficient_quota": Meaning(OutOfCredit),
    "unauthorized": Meaning(NotAuthorized),
    "unauthenticated": Meaning(NotAuthorized),
    "forbidden": Meaning(NotAuthorized),
    "permission_denied": Meaning(NotAuthorized),
    "invalid_api_key": Meaning(NotAuthorized),
    "rate_limited": Meaning(Throttled),
    "rate_limit": Meaning(Throttled),
    "rate_limit_exceeded": Meaning(Throttled),
    "too_many_requests": Meaning(Throttled),
    "throttled": Meaning(Throttled),
    "overloaded": Meaning(Throttled),
    "queue_full": Meaning(Throttled),
    "idempotency_mismatch": KEY_MISMATCH,
    "idempotency_key_mismatch": KEY_MISMATCH,
    "idempotency_key_reused": KEY_MISMATCH,
    "idempotency_conflict": KEY_MISMATCH,
    "idempotency_key_in_use": KEY_IN_USE,
    "idempotency_in_progress": KEY_IN_USE,
    "request_in_progress": KEY_IN_USE,
    "job_not_found": Meaning(JobNotFound),
    "not_a_pdf": Meaning(DocumentRefused),
    "encrypted": Meaning(DocumentRefused),
    "unreadable": Meaning(DocumentRefused),
    "limit_exceeded": Meaning(DocumentRefused),
    "file_too_large": Meaning(DocumentRefused),
    "payload_too_large": Meaning(DocumentRefused),
    "timeout": Meaning(CallFailed),
    "memory": Meaning(CallFailed),
    "crashed": Meaning(CallFailed),
    "internal": Meaning(CallFailed),
    "internal_error": Meaning(CallFailed),
    "internal_server_error": Meaning(CallFailed),
    "server_error": Meaning(CallFailed),
    "vendor_error": Meaning(CallFailed),
    "upstream_error": Meaning(CallFailed),
    "service_unavailable": Meaning(Throttled),
}


def bounded_code(value: object, default: str, *, known: Container[str] = COMMON_CODES) -> str:
    """``value`` where it may be shown: an HTTP status, in ``known``, or letters with separators.
    `UNRECOGNISED` for any other code, ``default`` for what has not even the form of one."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not _CODE.fullmatch(value):
        return default
    if _WORDS.fullmatch(value) or _HTTP_STATUS.fullmatch(value) or _plain(value) in known:
        return value
    return UNRECOGNISED


def repeats(code: str, secret: str) -> bool:
    """Whether ``code`` has the secret in it, or a good part of it."""
    code, secret = code.lower(), secret.lower()
    if len(secret) < _FRAGMENT:  # would be found in any word, so only where it stands alone
        return secret in re.split(r"[_.-]", code) or secret == code
    return any(code[at : at + _FRAGMENT] in secret for at in range(len(code) - _FRAGMENT + 1))


def error_code(answer: Any) -> str | None:
    """The error code in a decoded JSON body, in any of the shapes services use; None if none."""
    if not isinstance(answer, dict):
        return None
    error = answer.get("error")
    if isinstance(error, list) and error:
        error = error[0]
    candidates: list[object] = []
    if isinstance(error, dict):
        candidates += [error.get("code"), error.get("type"), error.get("status")]
    elif isinstance(error, str):
        candidates.append(error)
    candidates += [answer.get("code"), answer.get("error_code"), answer.get("errorCode")]
    # Numbers last: where there is one beside a word, it only repeats the HTTP status.
    candidates.sort(key=lambda candidate: not isinstance(candidate, str))
    return best_code(bounded_code(candidate, "") for candidate in candidates)


def best_code(codes: Iterable[str]) -> str | None:
    """The first that tells something; `UNRECOGNISED` where none does, None where there is none."""
    found = [code for code in codes if code]
    return next((code for code in found if code != UNRECOGNISED), UNRECOGNISED if found else None)


def says_retryable(answer: Any) -> bool | None:
    """The `retryable` flag of an error body, where it has one."""
    error = answer.get("error") if isinstance(answer, dict) else None
    flag = error.get("retryable") if isinstance(error, dict) else None
    return flag if isinstance(flag, bool) else None


def failure(
    status: int,
    code: str | None,
    *,
    operation: str,
    retry_after: float | None = None,
    codes: Codes = COMMON_CODES,
    retryable: bool | None = None,
) -> ProviderError:
    """The error that an answer stands for.

    ``status`` 200..299 is a failure told inside a success. ``retryable`` is the service's own word
    on a code that the table does not know.
    """
    meaning = meaning_of(code, codes) or _by_status(status, operation, retryable)
    error = meaning.error
    if operation == SUBMIT and status >= 500 and error is CallFailed:
        error = SubmitUnknown
    if operation == SUBMIT and error is JobNotFound:  # a submit names no job: the service is amiss
        error = ServiceUnavailable
    return error(
        meaning.code or code or f"http_{status}",
        status=status,
        retry_after=retry_after,
        operation=operation,
    )


def meaning_of(code: str | None, codes: Codes = COMMON_CODES) -> Meaning | None:
    if code is None:
        return None
    return codes.get(_plain(code))


def _plain(code: str) -> str:
    return re.sub(r"[-. ]", "_", code).lower()


def _by_status(status: int, operation: str, retryable: bool | None) -> Meaning:
    submitting = operation == SUBMIT
    if 300 <= status < 400:
        return Meaning(ResponseUnsafe, "redirect")
    if status in (401, 403):
        return Meaning(NotAuthorized)
    if status == 402:
        return Meaning(OutOfCredit)
    # 503 without a hint counts as pressure too: it is what a full service and a load balancer
    # without a healthy backend say, and neither is a fault of the document.
    if status in (425, 429, 503):
        return Meaning(Throttled)
    if status in (404, 405, 410, 501) and submitting:
        return Meaning(ServiceUnavailable, "endpoint_not_found")
    if status in (404, 410):
        return Meaning(JobNotFound)
    if submitting and (status >= 500 or status == 408):
        return Meaning(SubmitUnknown)
    if submitting and status in (409, 422):
        return Meaning(DocumentRefused)
    if retryable is not None:
        return Meaning(CallFailed if retryable else DocumentRefused)
    if submitting and 400 <= status < 500:
        return Meaning(DocumentRefused)
    return Meaning(CallFailed)
