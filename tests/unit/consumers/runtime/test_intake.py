"""Back-pressure decisions."""

from __future__ import annotations

from consumers.runtime.intake import Intake
from consumers.runtime.offsets import Partition

P, Q = Partition("events", 0), Partition("events", 1)


def test_events_in_flight_have_hysteresis() -> None:
    intake = Intake(10, 7, 0.7)
    reasons = [intake.common_reason(count, True) for count in (9, 10, 9, 8, 7, 9)]
    assert reasons == [None, "in_flight", "in_flight", "in_flight", None, None]


def test_the_application_comes_first_and_does_not_disturb_the_count() -> None:
    intake = Intake(10, 7, 0.7)
    assert intake.common_reason(10, False) == "application"
    assert intake.common_reason(8, True) == "in_flight"


def test_a_full_window_has_hysteresis_per_partition() -> None:
    intake = Intake(10, 7, 0.7)
    full = [intake.window_full(P, fullness) for fullness in (0.9, 1.0, 0.8, 0.7, 0.9)]
    assert full == [False, True, True, False, False]
    assert not intake.window_full(Q, 0.9)


def test_a_partition_that_comes_back_is_not_remembered_as_full() -> None:
    intake = Intake(10, 7, 0.7)
    intake.window_full(P, 1.0)
    intake.forget([P])
    assert not intake.window_full(P, 0.9)
