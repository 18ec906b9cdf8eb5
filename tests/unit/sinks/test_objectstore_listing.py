"""What a page of a listing says, and what is none."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from sinks.objectstore import ListedObject
from sinks.objectstore.listing import NoListing, parameters, parse

NAMESPACE = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
OBJECT = (
    "<Contents><Key>a%2Fb+c%01</Key><Size>7</Size><ETag>&quot;e&quot;</ETag>"
    "<LastModified>2026-01-02T03:04:05.006Z</LastModified></Contents>"
)


def page(inside: str, attributes: str = NAMESPACE) -> bytes:
    return f"<ListBucketResult {attributes}>{inside}</ListBucketResult>".encode()


@pytest.mark.parametrize("attributes", [NAMESPACE, ""])
def test_objects_are_read_with_and_without_a_namespace(attributes: str) -> None:
    found = parse(page(f"<EncodingType>url</EncodingType>{OBJECT}", attributes))
    at = datetime(2026, 1, 2, 3, 4, 5, 6000, tzinfo=UTC)
    assert found.objects == [ListedObject("a/b c\x01", 7, at, "e")]
    assert found.next_token is None


def test_keys_are_unquoted_only_where_the_store_says_that_it_quoted_them() -> None:
    (found,) = parse(page(OBJECT)).objects
    assert found.key == "a%2Fb+c%01"


def test_directories_are_passed_over() -> None:
    assert parse(page("<Contents><Key>a/</Key><Size>0</Size></Contents>")).objects == []


def test_the_way_to_the_next_page() -> None:
    more = "<IsTruncated>true</IsTruncated><NextContinuationToken>t+/=</NextContinuationToken>"
    assert parse(page(more)).next_token == "t+/="
    asked = parameters("a/", start_after="a/b", token="t+/=")
    assert (asked["continuation-token"], asked["prefix"]) == ("t+/=", "a/")
    assert "start-after" not in asked
    assert parameters("", start_after="a/b", token=None)["start-after"] == "a/b"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"<html/>",
        b"<Error><Code>InternalError</Code></Error>",
        page("<IsTruncated>true</IsTruncated>"),
        page("<Contents><Key>a</Key><Size>many</Size></Contents>"),
        page("<Contents><Key>a</Key><LastModified>today</LastModified></Contents>"),
    ],
)
def test_what_is_no_listing_is_an_error_and_never_an_empty_one(body: bytes) -> None:
    with pytest.raises(NoListing):
        parse(body)
