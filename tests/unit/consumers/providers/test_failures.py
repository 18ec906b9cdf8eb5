from __future__ import annotations

import pytest

from consumers.providers.aws import CODES as AWS
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
from consumers.providers.failures import Meaning, bounded_code, error_code, failure, repeats


@pytest.mark.parametrize(
    ("operation", "status", "kind"),
    [
        ("submit", 307, ResponseUnsafe),
        ("submit", 400, DocumentRefused),
        ("submit", 401, NotAuthorized),
        ("submit", 402, OutOfCredit),
        ("submit", 403, NotAuthorized),
        ("submit", 404, ServiceUnavailable),
        ("submit", 408, SubmitUnknown),
        ("submit", 409, DocumentRefused),
        ("submit", 413, DocumentRefused),
        ("submit", 422, DocumentRefused),
        ("submit", 429, Throttled),
        ("submit", 500, SubmitUnknown),
        ("submit", 503, Throttled),
        ("submit", 504, SubmitUnknown),
        ("poll", 302, ResponseUnsafe),
        ("poll", 400, CallFailed),
        ("poll", 401, NotAuthorized),
        ("poll", 404, JobNotFound),
        ("poll", 410, JobNotFound),
        ("poll", 409, CallFailed),
        ("poll", 500, CallFailed),
        ("poll", 503, Throttled),
    ],
)
def test_a_status_without_a_code_decides_by_operation(
    operation: str, status: int, kind: type[ProviderError]
) -> None:
    error = failure(status, None, operation=operation)
    assert type(error) is kind
    assert error.status == status


@pytest.mark.parametrize(
    ("status", "code", "kind", "shown"),
    [
        (200, "INSUFFICIENT_CREDIT", OutOfCredit, "INSUFFICIENT_CREDIT"),
        (429, "quota_exceeded", OutOfCredit, "quota_exceeded"),
        (400, "rate-limited", Throttled, "rate-limited"),
        (409, "Idempotency_Key_Mismatch", DocumentRefused, "idempotency_mismatch"),
        (409, "request_in_progress", Throttled, "idempotency_key_in_use"),
        (422, "not_a_pdf", DocumentRefused, "not_a_pdf"),
    ],
)
def test_a_known_code_decides_before_the_status(
    status: int, code: str, kind: type[ProviderError], shown: str
) -> None:
    error = failure(status, code, operation="submit")
    assert type(error) is kind
    assert error.code == shown


def test_a_submit_that_finds_nothing_there_is_no_documents_fault_whatever_code_it_carries() -> None:
    codes = {"notfound": Meaning(JobNotFound)}
    assert type(failure(404, "NotFound", operation="poll", codes=codes)) is JobNotFound
    assert type(failure(404, "NotFound", operation="submit", codes=codes)) is ServiceUnavailable


def test_a_gateway_timeout_on_submit_stays_ambiguous_whatever_code_it_carries() -> None:
    assert type(failure(504, "timeout", operation="submit")) is SubmitUnknown


@pytest.mark.parametrize(("retryable", "kind"), [(True, CallFailed), (False, DocumentRefused)])
def test_the_services_own_word_decides_on_a_code_that_is_not_known(
    retryable: bool, kind: type[ProviderError]
) -> None:
    assert type(failure(200, "X_17", operation="poll", retryable=retryable)) is kind


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"error": {"code": "encrypted"}}, "encrypted"),
        ({"error": "encrypted"}, "encrypted"),
        ({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED"}}, "RESOURCE_EXHAUSTED"),
        ({"error": [{"code": "x"}]}, "x"),
        ({"code": 413}, "413"),
        ({"code": 19500203}, "unrecognised"),
        ({"ok": False, "data": None, "error": {"code": "E_ONE"}}, "E_ONE"),
        ({"error": "Mr. Jan Novak, born 1950"}, None),
        ({"error": {"code": "Novak_Jan_1950-02-03"}}, "unrecognised"),
        ({"error": {"code": "Novak_1950", "type": "bad_request"}}, "bad_request"),
        ({"error": "Novak_Jan_1950-02-03.pdf"}, "unrecognised"),
        ({"error": {"code": "word_" * 8 + "word"}}, "unrecognised"),
        ({"error": {"code": "x" * 65}}, None),
        ({"error": {"code": True}}, None),
        (["x"], None),
        (None, None),
    ],
)
def test_only_a_bounded_code_is_taken_from_an_error_body(body: object, code: str | None) -> None:
    assert error_code(body) == code


def test_a_code_that_is_not_safe_to_show_is_replaced() -> None:
    assert bounded_code("a\nb", "job_failed") == "job_failed"
    assert bounded_code("is-ok", "job_failed") == "is-ok"
    for code in ("ok-1", "_x", "x.", "a--b", "4131", "x" * 41):
        assert bounded_code(code, "job_failed") == "unrecognised"


def test_a_code_with_digits_is_shown_where_the_adapter_knows_it() -> None:
    assert bounded_code("InvalidS3ObjectException", "x", known=AWS) == "InvalidS3ObjectException"
    assert bounded_code("InvalidS3ObjectException", "x") == "unrecognised"


@pytest.mark.parametrize(
    ("code", "secret", "told"),
    [
        ("invalid.abcdefghijkl", "abcdefghijkl", True),
        ("ABCDEFGHIJKL", "abcdefghijkl", True),
        ("cdefghij", "abcdefghijkl", True),
        ("cdefghi", "abcdefghijkl", False),
        ("not_found", "not-a-secret", False),
        ("bad_key", "key", True),
        ("monkey", "key", False),
    ],
)
def test_a_code_that_repeats_the_secret_or_much_of_it_is_told(
    code: str, secret: str, told: bool
) -> None:
    assert repeats(code, secret) is told
