"""Where the control loop's time goes."""

from __future__ import annotations

from consumers.runtime.clock import Clock
from consumers.runtime.observer import Activity, Observer


class ActivityTimer:
    """Books every second of the loop to exactly one activity: each `lap` takes what has passed
    since the lap before, so the sums add up to wall time."""

    def __init__(self, clock: Clock, observer: Observer) -> None:
        self._clock = clock
        self._observer = observer
        self._last = clock.monotonic()
        self._seconds: dict[Activity, float] = {}

    def lap(self, activity: Activity, *, of_which_waited: float = 0.0) -> None:
        """Book the time since the last lap; ``of_which_waited`` seconds of it to ``wait``."""
        now = self._clock.monotonic()
        passed = now - self._last
        self._last = now
        waited = min(of_which_waited, passed)
        seconds = self._seconds
        seconds[activity] = seconds.get(activity, 0.0) + passed - waited
        if waited:
            seconds["wait"] = seconds.get("wait", 0.0) + waited

    def flush(self) -> None:
        """Tell the observer. Per activity, because a hook call each lap would cost more than the
        laps."""
        seconds, self._seconds = self._seconds, {}
        for activity, amount in seconds.items():
            self._observer.loop_activity(activity, amount)
