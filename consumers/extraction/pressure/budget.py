"""A retry budget per provider: retries may only ever be a fraction of the calls. Pure.

Without one, every layer's "just three more attempts" multiplies an outage into a flood. A retry
that finds the budget empty is not refused; it waits until other calls have earned it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class RetryBudget:
    """A bucket of at most ``capacity`` retries, refilled by ``ratio`` per first attempt and by
    ``per_second`` so that a quiet worker can still retry."""

    capacity: float = 100.0
    ratio: float = 0.2
    per_second: float = 1.0
    left: float = 100.0
    spent: int = 0
    _at: float | None = None

    def earned(self, now: float) -> None:
        """A first attempt was made."""
        self._refill(now)
        self.left = min(self.capacity, self.left + self.ratio)

    def wait_for_retry(self, now: float) -> float:
        """Seconds until one more retry is covered; the retry is taken from the budget."""
        self._refill(now)
        self.left -= 1.0
        self.spent += 1
        return 0.0 if self.left >= 0 else -self.left / self.per_second

    def _refill(self, now: float) -> None:
        if self._at is not None and now > self._at:
            self.left = min(self.capacity, self.left + (now - self._at) * self.per_second)
        self._at = now
