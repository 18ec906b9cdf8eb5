"""How S3 answers are sorted, without a server."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from sinks.objectstore import S3Settings, StoreError
from sinks.objectstore.answers import error_code, etag_of, failure, http_date, retry_seconds
from sinks.objectstore.conditional import WriteRaced

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("5", 5.0),
        (" 0.5 ", 0.5),
        ("0", 0.0),
        ("Thu, 01 Jan 2026 12:00:30 GMT", 30.0),
        ("Thu, 01 Jan 2026 11:00:00 GMT", 0.0),
        ("99999999999999999999", 3600.0),
        ("-1", None),
        ("soon", None),
        ("nan", None),
        ("1e400", None),
        ("", None),
        ("٣", None),
    ],
)
def test_retry_after_in_any_form(header: str | None, seconds: float | None) -> None:
    assert retry_seconds(header, now=NOW) == seconds


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"<Error><Code>NoSuchKey</Code></Error>", "NoSuchKey"),
        (b"<Error xmlns='x'>\n <Code> SlowDown </Code></Error>", "SlowDown"),
        (b"<html><Code>NoSuchKey</Code></html>", ""),
        (b"<Error><Code>patient Jane Doe</Code></Error>", ""),
        (b"<Error><Code>" + b"A" * 65 + b"</Code></Error>", ""),
        (b"<CompleteResult><ETag>x</ETag></CompleteResult>", ""),
        (b"\xff\xfe\x00", ""),
        (b"", ""),
    ],
)
def test_only_a_short_identifier_is_taken_from_an_error_document(body: bytes, code: str) -> None:
    assert error_code(body) == code


@pytest.mark.parametrize("operation", ["get", "head", "put", "put_if_absent", "delete", "list"])
def test_every_status_has_a_meaning(operation: str) -> None:
    for status in range(300, 600):
        for code in ("", "SomethingNew"):
            found = failure(operation, "bucket", status=status, code=code)
            assert isinstance(found, StoreError) or status == 409
            if status >= 500 and status != 501:
                assert isinstance(found, StoreError)
                assert found.kind == "systemic"


def test_409_is_a_race_only_for_a_conditional_write() -> None:
    assert isinstance(failure("put_if_absent", "b", status=409, code=""), WriteRaced)
    assert isinstance(failure("delete", "b", status=409, code=""), StoreError)
    no_bucket = failure("put_if_absent", "b", status=409, code="NoSuchBucket")
    assert isinstance(no_bucket, StoreError)


def test_etags_are_compared_without_quotes_and_dates_never_fail() -> None:
    assert etag_of('"abc-2"') == "abc-2"
    assert etag_of('W/"abc"') == "abc"
    assert etag_of(None) == ""
    assert http_date("garbage") == datetime.fromtimestamp(0, UTC)
    assert http_date("Thu, 01 Jan 2026 12:00:00 GMT") == NOW


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"endpoint_url": "localhost:9000"}, "endpoint_url"),
        ({"endpoint_url": "https://user:hunter2@host"}, "endpoint_url"),
        ({"endpoint_url": "https://host/bucket"}, "endpoint_url"),
        ({"access_key": ""}, "access_key"),
        ({"secret_key": ""}, "secret_key"),
        ({"region": "us east"}, "region"),
        ({"ca_file": Path("/no/such/file.pem")}, "ca_file"),
    ],
)
def test_a_wrong_setting_is_named_without_its_secret(changes: dict[str, str], named: str) -> None:
    given = {"endpoint_url": "http://h:1", "access_key": "a", "secret_key": "hunter2"} | changes
    with pytest.raises(ValueError, match=named) as caught:
        S3Settings(**given)  # type: ignore[arg-type]
    assert "hunter2" not in str(caught.value)
