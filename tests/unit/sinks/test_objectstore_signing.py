"""Our signatures are those of an independent implementation: the minio client's."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from urllib.parse import SplitResult, quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from minio.credentials.credentials import Credentials
from minio.signer import sign_v4_s3

from sinks.objectstore.signing import query_string, signature_headers

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
EMPTY = hashlib.sha256(b"").hexdigest()
KEY = "bündle 1/a+b=c~d/page-001.png"


def theirs(
    method: str, path: str, query: str, headers: dict[str, str], date: datetime = AT
) -> dict[str, str]:
    signed: dict[str, str | list[str] | tuple[str]] = {
        **headers,
        "x-amz-content-sha256": EMPTY,
        "x-amz-date": date.strftime("%Y%m%dT%H%M%SZ"),
    }
    sign_v4_s3(
        method=method,
        url=SplitResult("http", headers["Host"], path, query, ""),
        region="eu-west-1",
        headers=signed,
        credentials=Credentials("access", "secret"),
        content_sha256=EMPTY,
        date=date,
    )
    return {name: str(value) for name, value in signed.items()}


def ours(
    method: str, path: str, query: str, headers: dict[str, str], date: datetime = AT
) -> dict[str, str]:
    return headers | signature_headers(
        method,
        path,
        query,
        headers,
        access_key="access",
        secret_key="secret",
        region="eu-west-1",
        content_sha256=EMPTY,
        date=date,
    )


@pytest.mark.parametrize(
    ("method", "path", "query", "headers"),
    [
        ("GET", f"/bucket/{quote(KEY, safe='/~')}", {}, {}),
        ("PUT", "/bucket/key", {}, {"If-None-Match": "*", "Content-Type": "text/plain"}),
        ("PUT", "/key", {}, {"x-amz-meta-a": "  two  spaces ", "x-amz-security-token": "t/+="}),
        ("GET", "/bucket/", {"list-type": "2", "prefix": KEY, "delimiter": ""}, {}),
    ],
)
def test_they_are_equal(
    method: str, path: str, query: dict[str, str], headers: dict[str, str]
) -> None:
    request = (method, path, query_string(query), {**headers, "Host": "store:9000"})
    assert ours(*request) == theirs(*request)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_they_are_equal_for_any_prefix(prefix: str) -> None:
    request = ("GET", "/bucket/", query_string({"prefix": prefix, "list-type": "2"}), {"Host": "s"})
    assert ours(*request) == theirs(*request)


def test_the_next_day_has_a_key_of_its_own() -> None:
    request = ("GET", "/bucket/key", "", {"Host": "store"})
    for day in (2, 3, 2):
        date = AT.replace(day=day)
        assert ours(*request, date) == theirs(*request, date)
