"""One gate per provider: when one job is told to wait, all jobs of that provider wait.

Pure: monotonic seconds come in, seconds to wait go out.
"""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_WAIT_S = 1.0
"""For a throttle that names no time."""
MAX_WAIT_S = 600.0
"""However long a service asks to be left alone, it is asked again after this."""


@dataclass(slots=True)
class Gate:
    """Closed until a moment; behind it, admissions are spaced so that the jobs which waited do not
    all arrive at once. The spacing doubles with each throttle and shrinks with each success
    (additive-increase/multiplicative-decrease of the rate)."""

    max_wait_s: float = MAX_WAIT_S
    """The longest wait that makes sense: a job's deadline."""
    spacing_floor_s: float = 0.002
    spacing_ceiling_s: float = 1.0
    open_at: float = 0.0
    spacing_s: float = 0.0
    throttles: int = 0
    waited_s: float = 0.0

    def admit(self, now: float) -> float:
        """Seconds this call must wait. Each call reserves its own moment."""
        moment = max(now, self.open_at)
        if self.spacing_s > 0:
            self.open_at = moment + self.spacing_s
        wait = moment - now
        self.waited_s += wait
        return wait

    def throttled(self, now: float, retry_after: float | None) -> float:
        """A call was throttled; gives the seconds that everyone now waits at the least."""
        asked = DEFAULT_WAIT_S if retry_after is None else max(retry_after, 0.0)
        wait = min(asked, self.max_wait_s)
        self.open_at = max(self.open_at, now + wait)
        self.spacing_s = min(max(self.spacing_s * 2, self.spacing_floor_s), self.spacing_ceiling_s)
        self.throttles += 1
        return wait

    def succeeded(self) -> None:
        if self.spacing_s > 0:
            self.spacing_s *= 0.8
            if self.spacing_s < self.spacing_floor_s:
                self.spacing_s = 0.0
