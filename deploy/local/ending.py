"""Ctrl-C and its kin end a piece of work in order: what it started is always tidied up."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

T = TypeVar("T")

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_AGAIN_AFTER_S = 1.0


class Ended(BaseException):
    """A signal asked for the end. No Exception, so that no handler takes it for a failure."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.exit_code = 128 + number


def run_until_signal(work: Callable[[], T], tidy_up: Callable[[], object]) -> T:
    """``work``, and then ``tidy_up`` however it ended. For the main thread.

    SIGINT, SIGTERM or SIGHUP raises `Ended` wherever ``work`` is; it leaves here once all is tidy.
    ``tidy_up`` is not interrupted: it must bear that ``work`` stopped anywhere, and must end.
    """
    working, last = True, -_AGAIN_AFTER_S

    def handle(number: int, _frame: FrameType | None) -> None:
        nonlocal last
        # Two signals at once must not raise twice: the second would hit the way to `tidy_up`. A
        # later one may, because an exception that is raised inside of a finalizer gets lost.
        if working and time.monotonic() - last >= _AGAIN_AFTER_S:
            last = time.monotonic()
            raise Ended(number)

    # A terminal that is closed under `nohup` is none of our business.
    ours = [n for n in _SIGNALS if n != signal.SIGHUP or signal.getsignal(n) != signal.SIG_IGN]
    before = {number: signal.getsignal(number) for number in ours}
    try:
        try:
            for number in ours:
                signal.signal(number, handle)
            return work()
        finally:
            working = False
    finally:
        try:
            tidy_up()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
