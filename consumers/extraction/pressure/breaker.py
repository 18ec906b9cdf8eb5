"""The circuit breaker of one dependency (a provider, the store): pure, on monotonic seconds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class BreakerState(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


@dataclass(slots=True)
class Breaker:
    """Opens after ``threshold`` consecutive failures (at once for a decisive one), then lets one
    probe through at a time, at intervals growing from ``first_wait_s`` to ``ceiling_s``; the first
    success closes it.

    The ceiling is small on purpose: it bounds how long after an outage work starts again.
    """

    threshold: int = 5
    first_wait_s: float = 1.0
    ceiling_s: float = 5.0
    failures: int = 0
    opened_times: int = 0
    _wait_s: float = 0.0
    _retry_at: float | None = None
    _probing_until: float | None = None
    opened_at: float | None = None

    @property
    def is_open(self) -> bool:
        return self._retry_at is not None

    def state(self, now: float) -> BreakerState:
        if self._retry_at is None:
            return BreakerState.CLOSED
        probing = self._probing_until is not None and now < self._probing_until
        return BreakerState.HALF_OPEN if probing else BreakerState.OPEN

    def admit(self, now: float, *, probe_timeout_s: float = 60.0) -> float:
        """0: go on (while open, as the probe). Otherwise the seconds until it is worth asking
        again. A probe that never reports stops counting after ``probe_timeout_s``."""
        if self._retry_at is None:
            return 0.0
        if self._probing_until is not None:
            if now < self._probing_until:
                return min(self.first_wait_s, self._probing_until - now)
            self._probing_until = None
        if now < self._retry_at:
            return self._retry_at - now
        self._probing_until = now + probe_timeout_s
        return 0.0

    def succeeded(self) -> None:
        self.failures = 0
        self._retry_at = self._probing_until = self.opened_at = None
        self._wait_s = 0.0

    def failed(self, now: float, *, decisive: bool = False) -> bool:
        """Counts a failure; True when this one opened the breaker (or kept it open)."""
        self.failures += 1
        if self._retry_at is None and not decisive and self.failures < self.threshold:
            return False
        if self._retry_at is None:
            self.opened_times += 1
            self.opened_at = now
        elif self._probing_until is None and now < self._retry_at:
            return True  # a call that was already under way when it opened
        self._wait_s = min(max(self._wait_s * 2, self.first_wait_s), self.ceiling_s)
        self._retry_at = now + self._wait_s
        self._probing_until = None
        return True

    def abandoned(self) -> None:
        """A probe ended without an answer (its task was cancelled): let another one probe."""
        self._probing_until = None
