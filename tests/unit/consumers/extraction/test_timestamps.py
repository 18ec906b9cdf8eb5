import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.extraction.timestamps import parse_rfc3339, rfc3339


def test_times_are_written_in_utc_with_milliseconds() -> None:
    assert rfc3339(0.0) == "1970-01-01T00:00:00.000Z"
    assert rfc3339(1_769_860_800.1239) == "2026-01-31T12:00:00.124Z"


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-31T12:00:00Z",
        "2026-01-31T12:00:00.000Z",
        "2026-01-31T13:00:00+01:00",
        "2026-01-31T07:00:00.000000-05:00",
    ],
)
def test_every_spelling_of_a_moment_is_the_same_moment(text: str) -> None:
    assert parse_rfc3339(text) == 1_769_860_800.0


@pytest.mark.parametrize(
    "text",
    ["", "soon", "2026-01-31", "2026-01-31T12:00:00", "2026-13-31T12:00:00Z", "0" * 5000, "\x00"],
)
def test_what_is_no_moment_is_none(text: str) -> None:
    assert parse_rfc3339(text) is None


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_the_ends_of_the_calendar_do_not_raise(text: str) -> None:
    parse_rfc3339(text)


@given(st.text())
def test_no_text_makes_parsing_raise(text: str) -> None:
    parse_rfc3339(text)


@given(st.floats(0, 4e9))
def test_what_is_written_can_be_read(seconds: float) -> None:
    text = rfc3339(seconds)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", text)
    read = parse_rfc3339(text)
    assert read is not None
    assert abs(read - seconds) <= 0.0006
    assert rfc3339(read) == text


@given(st.lists(st.floats(0, 4e9), min_size=2, max_size=5))
def test_the_order_of_texts_is_the_order_of_times(moments: list[float]) -> None:
    assert max(map(rfc3339, moments)) == rfc3339(max(moments))
