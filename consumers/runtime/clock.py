"""The two clocks that the runtime reads, behind a protocol so that tests and the simulator can
move time themselves."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """``monotonic`` for every duration and deadline; ``time`` only for what people read."""

    def monotonic(self) -> float:
        """Seconds that never go back; their zero means nothing."""
        ...

    def time(self) -> float:
        """Seconds since 1970 UTC; may jump when the machine's clock is set."""
        ...


class SystemClock:
    """The clocks of this machine."""

    def monotonic(self) -> float:
        return time.monotonic()

    def time(self) -> float:
        return time.time()
