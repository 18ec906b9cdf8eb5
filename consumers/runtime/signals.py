"""Turns the signals by which orchestrators and people stop a process into an orderly stop."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType


def stop_on_signals(stop: Callable[[], None]) -> None:
    """Call ``stop`` on SIGTERM and SIGINT. Main thread only; ``stop`` runs between two bytecodes of
    whatever the main thread is doing, so it must do no more than set a flag (`Worker.stop`)."""

    def handle(number: int, frame: FrameType | None) -> None:
        stop()

    signal.signal(signal.SIGTERM, handle)
    signal.signal(signal.SIGINT, handle)
