"""Ends a process that cannot end itself.

Both watchdogs leave with ``os._exit``: whatever hangs would hang an orderly exit too, and while the
process lives its partitions stay with it (a member whose poll thread hangs keeps them until
``max.poll.interval`` and, with the newer group protocol, a whole session more).
"""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from consumers.runtime.clock import Clock, SystemClock
from consumers.runtime.exits import Exit


def die_with_stacks(code: Exit, message: str) -> None:
    """Write ``message`` and the stacks of all threads to stderr, then end the process at once."""
    print(message, file=sys.stderr, flush=True)
    faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
    os._exit(code)


class LoopWatchdog:
    """A daemon thread that expects a sign of life from the control loop."""

    def __init__(
        self,
        limit: float,
        on_stuck: Callable[[Exit, str], None] = die_with_stacks,
        clock: Clock | None = None,
    ) -> None:
        """:param limit: seconds between two beats that end the process."""
        self._limit = limit
        self._on_stuck = on_stuck
        self._clock: Clock = clock if clock is not None else SystemClock()
        self._last_beat = self._clock.monotonic()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="loop-watchdog", daemon=True)

    def beat(self) -> None:
        """The loop is alive. Cheap: called many times a second."""
        self._last_beat = self._clock.monotonic()

    @property
    def age(self) -> float:
        """Seconds since the last beat. For a liveness check; any thread may ask."""
        return self._clock.monotonic() - self._last_beat

    @property
    def limit(self) -> float:
        """Seconds; above it the loop counts as hung."""
        return self._limit

    def start(self) -> None:
        self.beat()
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()

    def _watch(self) -> None:
        while not self._stopped.wait(min(1.0, self._limit / 4)):
            if self.age > self._limit:
                self._on_stuck(
                    Exit.LOOP_STUCK,
                    f"the control loop has been stuck for {self.age:.1f} s: ending the process",
                )
                return


@contextmanager
def ends_within(seconds: float, code: Exit, what: str) -> Iterator[None]:
    """End the process with ``code`` if the block takes longer than ``seconds``."""

    def give_up() -> None:
        print(f"{what} did not end within {seconds:.1f} s", file=sys.stderr, flush=True)
        os._exit(code)

    timer = threading.Timer(seconds, give_up)
    timer.daemon = True
    timer.name = f"deadline-{what}"
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
