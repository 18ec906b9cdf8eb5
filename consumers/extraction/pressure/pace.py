"""What is sent at most so many times a second: a service's limit on polls.

Pure: monotonic seconds come in, seconds to wait go out.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Pace:
    """Each call reserves a moment of its own, the next that is free, so calls keep the order in
    which they came due and none is overtaken for ever: of ``n`` callers with one call each, the
    last waits ``n / per_second`` seconds."""

    per_second: float
    free_at: float = 0.0

    def admit(self, now: float) -> float:
        """Seconds this call must wait."""
        moment = max(now, self.free_at)
        self.free_at = moment + 1 / self.per_second
        return moment - now
