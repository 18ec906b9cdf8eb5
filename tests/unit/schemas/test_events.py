"""What is accepted as a bundle event, and with which reason the rest is refused."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.base import Operation
from schemas.cloudevents import EventRejected, parse_event
from schemas.events import BundleEvent
from schemas.reasons import Reason

KNOWN_HEADERS = ["x-replay-count", "traceparent", "content-type", "ce_id", "ce_source"]
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def event(**changes: Any) -> dict[str, Any]:
    document = {"document_id": "d1", "segments": [{"source": {"key": "in/a.pdf"}}]}
    return {"bundle_id": "b1", "documents": [document]} | changes


def document(**changes: Any) -> dict[str, Any]:
    return {"document_id": "d1", "segments": [{"source": {"key": "in/a.pdf"}}]} | changes


def source(**changes: Any) -> dict[str, Any]:
    return event(documents=[document(segments=[{"source": {"key": "in/a.pdf"} | changes}])])


def value(content: Any) -> bytes:
    return json.dumps(content).encode()


def rejection(raw: bytes | None, *headers: tuple[str, bytes | None]) -> EventRejected:
    with pytest.raises(EventRejected) as caught:
        parse_event(raw, headers)
    return caught.value


def test_a_bare_event_is_accepted() -> None:
    received = parse_event(value(event()), [])
    assert received.event.bundle_id == "b1"
    assert received.event.operation is Operation.RECEIVED
    assert received.event_id is None
    assert received.replays == 0


def test_binary_cloudevents_are_accepted() -> None:
    headers = [("ce_specversion", b"1.0"), ("ce_source", b"/dms"), ("ce_id", b"42")]
    assert parse_event(value(event()), headers).event_id == "/dms|42"


@pytest.mark.parametrize(
    "content_type", ["application/cloudevents+json", "Application/CloudEvents+JSON; charset=utf-8"]
)
def test_structured_cloudevents_are_accepted_in_any_case_of_letters(content_type: str) -> None:
    envelope = {"specversion": "1.0", "source": "/dms", "id": "42", "data": event()}
    received = parse_event(value(envelope), [("Content-Type", content_type.encode())])
    assert received.event.bundle_id == "b1"
    assert received.event_id == "/dms|42"


def test_members_that_we_do_not_know_are_the_producers_own_business() -> None:
    parse_event(value(event(clinic="north", priority=3)), [])


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (None, Reason.EVENT_UNPARSABLE),
        (b"", Reason.EVENT_UNPARSABLE),
        (b"\x00\x00\x00\x00\x01{}", Reason.EVENT_SCHEMA_FRAMED),
        (b"{", Reason.EVENT_UNPARSABLE),
        (b"\xff\xfe", Reason.EVENT_UNPARSABLE),
        (b"[]", Reason.EVENT_UNPARSABLE),
        (b"3", Reason.EVENT_UNPARSABLE),
        (b"[" * 100_000, Reason.EVENT_UNPARSABLE),
        (b"{}", Reason.EVENT_INVALID),
        (value(event(documents=[])), Reason.EVENT_INVALID),
        (value(event(documents=[document(), document()])), Reason.EVENT_INVALID),
        (value(event(schema_version=2)), Reason.EVENT_INVALID),
        (value(event(operation="shredded")), Reason.EVENT_INVALID),
        (value(event(occurred_at="2026-01-31T12:00:00")), Reason.EVENT_INVALID),
        (value(event(bundle_id="../b1")), Reason.EVENT_BAD_ID),
        (value(event(bundle_id="a..b")), Reason.EVENT_BAD_ID),
        (value(event(bundle_id="a/b")), Reason.EVENT_BAD_ID),
        (value(event(bundle_id="_jobs")), Reason.EVENT_BAD_ID),
        (value(event(bundle_id="b\n1")), Reason.EVENT_BAD_ID),
        (value(event(bundle_id="b1\n")), Reason.EVENT_BAD_ID),
        (value(event(bundle_id="x" * 129)), Reason.EVENT_BAD_ID),
        (value(event(bundle_id="")), Reason.EVENT_BAD_ID),
        (value(event(policy="a/b")), Reason.EVENT_BAD_ID),
        (value(event(documents=[document(document_id="d\u0000")])), Reason.EVENT_BAD_ID),
        (value(source(key="../etc/passwd")), Reason.EVENT_BAD_KEY),
        (value(source(key="a//b")), Reason.EVENT_BAD_KEY),
        (value(source(key="/a")), Reason.EVENT_BAD_KEY),
        (value(source(key="a\u0007b")), Reason.EVENT_BAD_KEY),
        (value(source(key="ä" * 600)), Reason.EVENT_BAD_KEY),
        (value(source(key="")), Reason.EVENT_BAD_KEY),
        (value(source(key="lone \ud800")), Reason.EVENT_BAD_KEY),
        (value(source(sha256="A" * 64)), Reason.EVENT_INVALID),
        (value(source(bytes=-1)), Reason.EVENT_INVALID),
        (value(source(bucket="UPPER")), Reason.EVENT_INVALID),
    ],
)
def test_a_bad_event_has_one_reason(raw: bytes | None, reason: Reason) -> None:
    assert rejection(raw).reason is reason


@pytest.mark.parametrize("pages", [{"first": 0, "last": 1}, {"first": 3, "last": 2}, {"first": 1}])
def test_page_ranges_have_a_beginning_and_an_end(pages: dict[str, int]) -> None:
    segments = [{"source": {"key": "a.pdf"}, "pages": pages}]
    raw = value(event(documents=[document(segments=segments)]))
    assert rejection(raw).reason is Reason.EVENT_INVALID


def test_a_rejection_names_the_member_and_never_its_value() -> None:
    error = rejection(value(event(documents=[document(document_id="Mustermann/..")])))
    assert error.where == "documents.0.document_id"
    assert "Mustermann" not in str(error) + repr(error.__cause__) + repr(error.__context__)


@pytest.mark.parametrize("data", [None, [], "text"])
def test_an_envelope_without_data_is_unparsable(data: Any) -> None:
    headers = [("content-type", b"application/cloudevents+json")]
    with pytest.raises(EventRejected) as caught:
        parse_event(value({"id": "1", "source": "/s", "data": data}), headers)
    assert caught.value.reason is Reason.EVENT_UNPARSABLE


@pytest.mark.parametrize(
    ("raw", "replays"),
    [
        (b"3", 3),
        (b"-1", 0),
        (b"x", 0),
        (b"", 0),
        (b"\xff", 0),
        (b"9" * 50, 0),
        (b"99999", 99999),
        ("²".encode(), 0),
    ],
)
def test_the_replay_count_is_a_small_number_or_none(raw: bytes, replays: int) -> None:
    assert parse_event(value(event()), [("x-replay-count", raw)]).replays == replays


@pytest.mark.parametrize(
    ("raw", "kept"),
    [(TRACE.encode(), TRACE), (b"garbage", None), (TRACE.upper().encode(), None), (None, None)],
)
def test_only_a_well_formed_traceparent_is_kept(raw: bytes | None, kept: str | None) -> None:
    assert parse_event(value(event()), [("traceparent", raw)]).traceparent == kept


def test_of_a_header_given_twice_the_last_one_counts() -> None:
    headers = [("x-replay-count", b"1"), ("X-Replay-Count", b"2")]
    assert parse_event(value(event()), headers).replays == 2


@given(st.binary(max_size=200))
def test_no_bytes_make_parsing_raise_anything_else(raw: bytes) -> None:
    with suppress(EventRejected):
        parse_event(raw, [])


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(
    st.dictionaries(
        st.sampled_from(["bundle_id", "documents", "policy", "operation", "schema_version"]), JSON
    )
)
def test_no_json_makes_parsing_raise_anything_else(content: dict[str, Any]) -> None:
    with suppress(EventRejected):
        assert isinstance(parse_event(json.dumps(content).encode(), []).event, BundleEvent)


@given(st.lists(st.tuples(st.sampled_from(KNOWN_HEADERS), st.none() | st.binary(max_size=70))))
def test_no_headers_make_parsing_raise_anything_else(
    headers: list[tuple[str, bytes | None]],
) -> None:
    with suppress(EventRejected):
        parse_event(value(event()), headers)


@given(st.text(max_size=6))
def test_no_text_as_a_replay_count_makes_parsing_raise(text: str) -> None:
    parse_event(value(event()), [("x-replay-count", text.encode("utf-8", "surrogatepass"))])
