"""Calls to a service from the threads of one way of the comparison: they wait as a worker's jobs.

Where one is throttled, all wait; polls of all threads keep to one limit; all learn from all jobs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from consumers.extraction.polling import schedule_for
from consumers.extraction.pressure.gate import MAX_WAIT_S, Gate
from consumers.extraction.pressure.pace import Pace
from consumers.providers.errors import Throttled
from schemas.policy import Policy

Answer = TypeVar("Answer")


class Calls:
    """Shared by threads: what learns or counts is only touched under the lock."""

    def __init__(
        self,
        policy: Policy,
        polls_per_second: float | None,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """``polls_per_second``: None: as many as come."""
        self._polling = policy.polling
        self._lock = threading.Lock()
        self._schedule = schedule_for([policy])
        self._gate = Gate(max_wait_s=min(MAX_WAIT_S, policy.polling.deadline_s))
        self._pace = None if polls_per_second is None else Pace(polls_per_second)
        self.sleep = sleep

    def next_delay(self, elapsed_s: float, polls: int, hint_s: float | None, pages: int) -> float:
        """As `PollSchedule.next_delay`."""
        with self._lock:
            return self._schedule.next_delay(self._polling, elapsed_s, polls, hint_s, pages)

    def asked(self, late_s: float) -> None:
        """As `PollSchedule.asked`."""
        with self._lock:
            self._schedule.asked(late_s)

    def learn(self, run_s: float, pages: int) -> None:
        """As `PollSchedule.learn`."""
        with self._lock:
            self._schedule.learn(run_s, pages)

    def make(
        self,
        call: Callable[[], Answer],
        *,
        until: float,
        throttled: Callable[[], None],
        is_poll: bool = False,
    ) -> Answer:
        """The answer to ``call``, which is made again as often as it is throttled, each time after
        the wait that was asked for. ``throttled`` hears of each time.

        :raises Throttled: the next try would be after ``until`` (monotonic).
        :raises ProviderError: any other failure of ``call``, at once.
        """
        while True:
            self.sleep(self._turn(is_poll))
            try:
                answer = call()
            except Throttled as error:
                throttled()
                now = time.monotonic()
                with self._lock:
                    wait = self._gate.throttled(now, error.retry_after)
                if now + wait > until:
                    raise
            else:
                with self._lock:
                    self._gate.succeeded()
                return answer

    def _turn(self, is_poll: bool) -> float:
        """Seconds to wait for it."""
        now = time.monotonic()
        with self._lock:
            wait = self._gate.admit(now)
            if is_poll and self._pace is not None:
                wait += self._pace.admit(now + wait)
            return wait
