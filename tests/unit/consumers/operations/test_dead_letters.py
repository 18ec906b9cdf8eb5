"""Dead letters read back, and the filters of `bundles replay`."""

from __future__ import annotations

from typing import Any

import pytest

from consumers.operations.dead_letters import DeadLetter, Filter, parse_dead_letter
from schemas import topics as names


class FakeRecord:
    def __init__(self, headers: dict[str, str]) -> None:
        self._headers = headers

    def headers(self) -> list[tuple[str, bytes]]:
        return [(name, value.encode()) for name, value in self._headers.items()]

    def key(self) -> bytes:
        return b"key"

    def value(self) -> bytes:
        return b"value"


HEADERS = {
    "content-type": "application/json",
    names.REPLAY_COUNT: "1",
    names.DLQ_ID: "letter",
    names.DLQ_REASON: "deadline",
    names.DLQ_STAGE: "poll",
    names.DLQ_TOPIC: "events",
    names.DLQ_PARTITION: "3",
    names.DLQ_OFFSET: "17",
    names.DLQ_LAST_FAILED_AT: "2026-01-31T12:00:00.000Z",
    names.DLQ_REPLAYS: "1",
    names.DLQ_BUNDLE_ID: "bundle",
    names.DLQ_DOCUMENT_ID: "document",
    names.DLQ_EXTRACTION_ID: "extraction",
}
FAILED_AT = 1769860800.0


def letter(**changes: str) -> DeadLetter:
    record: Any = FakeRecord(HEADERS | changes)
    parsed = parse_dead_letter(record)
    assert parsed is not None
    return parsed


def test_of_the_headers_only_the_originals_own_are_published_again() -> None:
    assert letter().headers == (("content-type", b"application/json"),)
    assert letter().failed_at == FAILED_AT


@pytest.mark.parametrize(
    "missing", [names.DLQ_ID, names.DLQ_TOPIC, names.DLQ_OFFSET, names.DLQ_LAST_FAILED_AT]
)
def test_a_record_that_is_no_dead_letter_of_ours_is_passed_over(missing: str) -> None:
    record: Any = FakeRecord({n: v for n, v in HEADERS.items() if n != missing})
    assert parse_dead_letter(record) is None


@pytest.mark.parametrize("wrong", ["", "x", "-1"])
def test_nonsense_in_the_replay_count_is_passed_over(wrong: str) -> None:
    record: Any = FakeRecord(HEADERS | {names.DLQ_REPLAYS: wrong})
    assert parse_dead_letter(record) is None


MATCHING = [
    Filter(),
    Filter(reasons=frozenset({"deadline", "unreadable"})),
    Filter(stages=frozenset({"poll"})),
    Filter(since=FAILED_AT, until=FAILED_AT + 1),
    Filter(bundle_id="bundle", document_id="document", extraction_id="extraction"),
    Filter(identifier="letter"),
]
OTHERS = [
    Filter(reasons=frozenset({"unreadable"})),
    Filter(stages=frozenset({"submit"})),
    Filter(since=FAILED_AT + 1),
    Filter(until=FAILED_AT),
    Filter(bundle_id="bundle", document_id="other"),
    Filter(extraction_id="other"),
    Filter(identifier="other"),
]


@pytest.mark.parametrize("wanted", MATCHING)
def test_a_letter_that_is_as_asked_for_matches(wanted: Filter) -> None:
    assert wanted.matches(letter())


@pytest.mark.parametrize("wanted", OTHERS)
def test_a_letter_that_differs_in_one_thing_does_not_match(wanted: Filter) -> None:
    assert not wanted.matches(letter())
