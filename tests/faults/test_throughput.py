"""The measure of the fault runs, on made-up moments."""

from __future__ import annotations

from tests.faults.throughput import rate, seconds_to_full


def evenly(start: float, end: float, per_second: float) -> list[float]:
    count = int((end - start) * per_second)
    return [start + n / per_second for n in range(count)]


def test_a_gap_counts_from_the_restoration_to_the_end_of_the_gap() -> None:
    moments = evenly(0, 20, 4) + evenly(37, 80, 4)
    found = seconds_to_full(moments, (5, 15), 30, horizon_s=40)
    assert found is not None
    assert 6 <= found <= 7


def test_nothing_slowed_down() -> None:
    assert seconds_to_full(evenly(0, 80, 4), (5, 15), 20, horizon_s=30) == 0.0


def test_half_speed_is_not_full_speed() -> None:
    moments = evenly(0, 20, 4) + evenly(20, 80, 2)
    assert seconds_to_full(moments, (5, 15), 20, horizon_s=50) is None


def test_what_ends_right_after_a_kill_is_not_the_recovery() -> None:
    moments = evenly(0, 26, 4) + evenly(36, 80, 4)
    found = seconds_to_full(moments, (5, 15), 20, horizon_s=50)
    assert found is not None
    assert found >= 15


def test_the_rate_is_per_second() -> None:
    assert rate(evenly(0, 10, 3), 2, 6) == 3
