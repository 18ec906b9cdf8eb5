"""The retry table, row by row, and that no failure is without a row."""

from __future__ import annotations

import re
from typing import Any

import pytest

from consumers.extraction.documents.model import DocumentRejected
from consumers.extraction.retries import Classified, Verdict, classify
from consumers.extraction.sandbox.errors import (
    SandboxClosed,
    SandboxCrashed,
    SandboxMemory,
    SandboxTimeout,
    SandboxUnavailable,
)
from consumers.extraction.workspace import LargerThanQuota, WorkspaceFull
from consumers.providers import errors as provider
from schemas.reasons import Reason
from sinks.objectstore import errors as store

PROVIDER_ROWS = [
    (provider.Throttled("http_429", status=429, retry_after=7.0), Verdict.THROTTLED, None),
    (provider.CallFailed("http_500", status=500), Verdict.ATTEMPT, None),
    (provider.Truncated("length_mismatch"), Verdict.ATTEMPT, None),
    (provider.SubmitUnknown("timed_out"), Verdict.AMBIGUOUS, None),
    (provider.JobNotFound("http_404", status=404), Verdict.ATTEMPT, None),
    (provider.ImageExpired("http_403", status=403), Verdict.ATTEMPT, None),
    (provider.DocumentRefused("not_a_pdf"), Verdict.DOCUMENT, Reason.PROVIDER_REFUSED),
    (provider.ResponseUnsafe("redirect"), Verdict.DOCUMENT, Reason.PROVIDER_UNSAFE),
    (provider.ServiceUnavailable("unreachable"), Verdict.SYSTEMIC, None),
    (provider.NotAuthorized("http_401", status=401), Verdict.SYSTEMIC, None),
    (provider.OutOfCredit("http_402", status=402), Verdict.SYSTEMIC, None),
    (provider.CallFailed("http_502", status=502), Verdict.SYSTEMIC, None),
    (provider.CallFailed("http_504", status=504), Verdict.SYSTEMIC, None),
]
STORE_ROWS = [
    (store.ObjectNotFound("download", "b"), Verdict.DOCUMENT, Reason.SOURCE_MISSING),
    (store.BucketNotFound("download", "b"), Verdict.DOCUMENT, Reason.SOURCE_MISSING),
    (store.BucketNotFound("put", "b", kind="systemic"), Verdict.SYSTEMIC, None),
    (store.ObjectTooLarge("download", "b", limit=1), Verdict.DOCUMENT, Reason.TOO_LARGE),
    (store.ChecksumMismatch("download", "b"), Verdict.DOCUMENT, Reason.CHECKSUM_MISMATCH),
    (store.StoreThrottled("put", "b", retry_after=2.0), Verdict.THROTTLED, None),
    (store.StoreUnavailable("put", "b"), Verdict.SYSTEMIC, None),
    (store.AmbiguousWrite("put_if_absent", "b"), Verdict.SYSTEMIC, None),
    (
        store.AccessDenied("download", "b", credentials_rejected=True),
        Verdict.SYSTEMIC,
        None,
    ),
    (store.AccessDenied("put", "b"), Verdict.SYSTEMIC, None),
]
LOCAL_ROWS = [
    (DocumentRejected("encrypted"), Verdict.DOCUMENT, Reason.ENCRYPTED),
    (DocumentRejected("page_range", {"segment": 1}), Verdict.DOCUMENT, Reason.PAGE_RANGE),
    (SandboxTimeout(), Verdict.DOCUMENT, Reason.PARSE_TIMEOUT),
    (SandboxMemory(), Verdict.DOCUMENT, Reason.PARSE_MEMORY),
    (SandboxCrashed(), Verdict.DOCUMENT, Reason.PARSE_CRASHED),
    (SandboxUnavailable("x"), Verdict.SYSTEMIC, None),
    (SandboxClosed("x"), Verdict.SYSTEMIC, None),
    (WorkspaceFull("x"), Verdict.SYSTEMIC, None),
    (
        provider.DocumentRefused("image_too_large", operation="fetch_image"),
        Verdict.DOCUMENT,
        Reason.IMAGE_TOO_LARGE,
    ),
    (LargerThanQuota("x"), Verdict.DOCUMENT, Reason.TOO_LARGE),
    (OSError(28, "No space left on device"), Verdict.SYSTEMIC, None),
    (KeyError("anything"), Verdict.BUG, Reason.INTERNAL_ERROR),
]


@pytest.mark.parametrize(
    ("error", "verdict", "reason"),
    [*PROVIDER_ROWS, *STORE_ROWS, *LOCAL_ROWS],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_every_failure_has_its_row(
    error: Exception, verdict: Verdict, reason: Reason | None
) -> None:
    found = classify(error)
    assert found.verdict is verdict
    if reason is not None:
        assert found.reason is reason


def _instances() -> list[Exception]:
    found: list[Exception] = []
    for kind in _subclasses(provider.ProviderError):
        found.append(kind("some_code"))
    for kind in _subclasses(store.StoreError):
        if kind is store.ObjectTooLarge:
            found.append(kind("get", "bucket", limit=1))
        else:
            found.append(kind("get", "bucket"))
    return found


def _subclasses(kind: type[Exception]) -> list[type[Any]]:
    found: list[type[Any]] = [kind]
    for below in kind.__subclasses__():
        found += _subclasses(below)
    return found


@pytest.mark.parametrize("error", _instances(), ids=lambda error: type(error).__name__)
def test_no_known_failure_is_taken_for_a_bug(error: Exception) -> None:
    found = classify(error)
    assert found.verdict is not Verdict.BUG
    if found.verdict is Verdict.DOCUMENT:
        assert isinstance(found.reason, Reason)
    assert re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", found.code)


@pytest.mark.parametrize("reason", list(Reason), ids=lambda reason: reason.value)
def test_a_rejection_with_any_reason_keeps_it(reason: Reason) -> None:
    assert classify(DocumentRejected(reason.value)).reason is reason


@pytest.mark.parametrize(
    "error",
    [
        provider.NotAuthorized("http_401"),
        provider.OutOfCredit("http_402"),
        WorkspaceFull("x"),
        OSError(28, "x"),
        SandboxUnavailable("x"),
        store.AccessDenied("put", "b"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_failures_that_say_it_all_open_the_breaker_at_once(error: Exception) -> None:
    assert classify(error).decisive


def test_a_single_refused_connection_does_not() -> None:
    assert not classify(provider.ServiceUnavailable("unreachable")).decisive
    assert not classify(store.StoreUnavailable("get", "b")).decisive


def test_the_services_wait_is_handed_on() -> None:
    assert classify(provider.Throttled("http_429", retry_after=7.0)).retry_after == 7.0
    assert classify(store.StoreThrottled("put", "b", retry_after=2.0)).retry_after == 2.0


def test_no_text_of_an_unexpected_error_is_in_its_code() -> None:
    class NamedAtLength(Exception):
        pass

    NamedAtLength.__name__ = "N" * 500
    found = classify(NamedAtLength("Mustermann"))
    assert "Mustermann" not in repr(found)
    assert len(found.code) <= 64


def test_an_os_error_is_told_by_its_number_only() -> None:
    assert classify(OSError(28, "full", "/tmp/Mustermann.pdf")) == Classified(
        Verdict.SYSTEMIC, "os_error_28", decisive=True
    )


def test_a_temporary_file_that_went_away_is_not_waited_for() -> None:
    assert classify(FileNotFoundError(2, "gone", "/tmp/Mustermann.pdf")) == Classified(
        Verdict.ATTEMPT, "file_gone", Reason.INTERNAL_ERROR
    )
