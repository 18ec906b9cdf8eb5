"""The control loop's book of time."""

from __future__ import annotations

from consumers.runtime.activity import ActivityTimer
from consumers.runtime.observer import NullObserver
from tests.unit.consumers.runtime.fakes import FakeClock


class Heard(NullObserver):
    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def loop_activity(self, activity: str, seconds: float) -> None:
        self.seconds[activity] = self.seconds.get(activity, 0.0) + seconds


def test_every_second_is_booked_once_so_that_the_sum_is_wall_time() -> None:
    clock, heard = FakeClock(), Heard()
    timer = ActivityTimer(clock, heard)
    clock.advance(1)
    timer.lap("poll")
    clock.advance(5)
    timer.lap("tasks", of_which_waited=3)
    clock.advance(2)
    timer.lap("poll")
    timer.flush()
    timer.flush()
    assert heard.seconds == {"poll": 3, "tasks": 2, "wait": 3}


def test_no_more_waiting_is_booked_than_time_has_passed() -> None:
    clock, heard = FakeClock(), Heard()
    timer = ActivityTimer(clock, heard)
    clock.advance(1)
    timer.lap("tasks", of_which_waited=3)
    timer.flush()
    assert heard.seconds == {"tasks": 0, "wait": 1}
