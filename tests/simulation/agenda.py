"""Virtual time: what happens next, and when. Nothing in a simulation ever waits for real."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable

EPOCH = 1_790_000_000.0
"""What the wall clock shows when a simulation begins (seconds since 1970)."""


class Agenda:
    """Actions in order of their time; those of one moment in the order in which they were added."""

    def __init__(self) -> None:
        self.now = 0.0
        self.ran = 0
        self._entries: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def at(self, when: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._entries, (max(when, self.now), next(self._numbers), action))

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        self.at(self.now + seconds, action)

    @property
    def next_at(self) -> float | None:
        return self._entries[0][0] if self._entries else None

    def run_next(self) -> None:
        when, _, action = heapq.heappop(self._entries)
        self.now = max(self.now, when)
        self.ran += 1
        action()


class WorkerClock:
    """One machine's clocks: monotonic time is shared, the wall clock is off by ``skew_s``."""

    def __init__(self, agenda: Agenda, skew_s: float = 0.0) -> None:
        self._agenda = agenda
        self.skew_s = skew_s

    def monotonic(self) -> float:
        return self._agenda.now

    def time(self) -> float:
        return EPOCH + self._agenda.now + self.skew_s
