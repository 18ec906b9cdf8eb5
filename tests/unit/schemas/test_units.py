"""Durations and sizes: written with units, and never guessed at."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from schemas.units import Bytes, Days, Duration, Seconds, Size, format_duration, format_size

duration: TypeAdapter[float] = TypeAdapter(Duration)
size: TypeAdapter[int] = TypeAdapter(Size)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("250ms", 0.25), ("30s", 30.0), ("1.5 s", 1.5), ("5m", 300.0), ("2h", 7200.0), ("7d", 604800)],
)
def test_a_duration_is_read_with_its_unit(text: str, seconds: float) -> None:
    assert duration.validate_python(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "number"),
    [("17B", 17), ("1KB", 1000), ("512KiB", 524288), ("200 MiB", 209715200), ("2GiB", 2 << 30)],
)
def test_a_size_is_read_with_its_unit(text: str, number: int) -> None:
    assert size.validate_python(text) == number


@pytest.mark.parametrize("wrong", ["30", 30, 1.5, True, "30 sec", "s", "", "-5s", "1e3s", "٣s"])
def test_a_duration_without_a_unit_that_we_know_is_refused(wrong: Any) -> None:
    with pytest.raises(ValidationError, match="a duration with its unit, such as 250ms"):
        duration.validate_python(wrong)


@pytest.mark.parametrize("wrong", ["200", 200, "200 megs", "200mib", "MiB"])
def test_a_size_without_a_unit_that_we_know_is_refused(wrong: Any) -> None:
    with pytest.raises(ValidationError, match="a size with its unit, such as 512KiB"):
        size.validate_python(wrong)


@pytest.mark.parametrize(
    ("kind", "value", "number"),
    [
        (Seconds, 30, 30.0),
        (Seconds, "0.5", 0.5),
        (Seconds, "5m", 300.0),
        (Days, 90, 90.0),
        (Days, "36h", 1.5),
        (Days, "30d", 30.0),
        (Bytes, 1024, 1024),
        (Bytes, "1024", 1024),
        (Bytes, "1KiB", 1024),
    ],
)
def test_where_the_name_has_the_unit_a_number_will_do(kind: Any, value: Any, number: float) -> None:
    assert TypeAdapter(kind).validate_python(value) == number


@given(st.integers(0, 10**11))
def test_what_is_printed_of_a_duration_is_read_back_as_the_same(milliseconds: int) -> None:
    seconds = milliseconds / 1000
    assert duration.validate_python(format_duration(seconds)) == pytest.approx(seconds, abs=1e-6)


@given(st.integers(0, 2**50))
def test_what_is_printed_of_a_size_is_read_back_as_the_same(number: int) -> None:
    assert size.validate_python(format_size(number)) == number
