from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.providers.retry_after import LONGEST_SECONDS, from_headers, parse

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7.0),
        (" 7 ", 7.0),
        ("1.5", 1.5),
        ("0", 0.0),
        ("-5", 0.0),
        ("120, 60", 120.0),
        ("120, soon", 120.0),
        ("99999999999", LONGEST_SECONDS),
        ("9" * 400, LONGEST_SECONDS),
        ("Thu, 01 Jan 2026 12:00:30 GMT", 30.0),
        ("Thu, 01 Jan 2026 13:00:30 +0100", 30.0),
        ("Thu, 01 Jan 2026 11:00:00 GMT", 0.0),
        ("Thu Jan  1 12:00:09 2026", 9.0),
        ("2026-01-01T12:00:10Z", 10.0),
        ("soon", None),
        ("", None),
        ("nan", None),
        ("inf", None),
        ("1e9", None),
        ("0x10", None),
        ("Thu, 99 Jan 2026 12:00:30 GMT", None),
        ("9" * 5000, None),
    ],
)
def test_each_form_of_retry_after_gives_seconds_or_nothing(
    value: str, seconds: float | None
) -> None:
    assert parse(value, now=NOW) == seconds


@pytest.mark.parametrize("name", ["retry-after-ms", "x-ms-retry-after-ms"])
def test_the_millisecond_headers_win_over_seconds(name: str) -> None:
    assert from_headers({name: "1500", "retry-after": "60"}, now=NOW) == 1.5


def test_an_unreadable_millisecond_header_leaves_the_other_one_in_force() -> None:
    assert from_headers({"retry-after-ms": "later", "retry-after": "60"}, now=NOW) == 60.0


def test_no_header_is_no_hint() -> None:
    assert from_headers({}, now=NOW) is None


@given(st.text(max_size=200))
def test_no_text_makes_it_raise_or_give_a_negative_wait(value: str) -> None:
    seconds = parse(value, now=NOW)
    assert seconds is None or 0.0 <= seconds <= LONGEST_SECONDS
