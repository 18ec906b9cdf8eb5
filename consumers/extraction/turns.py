"""Calls take turns between bundles before they enter a pool.

A pool serves its calls in the order in which they came. So only few more than its threads can run
are let in, and the others wait where it is known whose they are: however many documents of a bundle
end at the same moment, a small one behind them waits for the calls in the pool, not for all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from consumers.extraction.services import Services
from consumers.runtime.effects import Acquire, Perform, Task

CALLS_PER_THREAD = 2
"""One runs, the other is there when it ends: the control loop may take some milliseconds to send
the next one."""


def in_turn(services: Services, bundle_id: str | None, pool: str, fn: Callable[[], Any]) -> Task:
    """Task: the value of ``fn()``, run in ``pool`` when it is the bundle's turn.

    A drain does not end it here: it may be about what is paid for. Nothing is waited for while the
    place is held but the call, so whatever else a task holds, places lead to no deadlock.
    """
    permit = yield Acquire(services.call_places[pool], bundle_id or "", through_drain=True)
    try:
        return (yield Perform(pool, fn))
    finally:
        permit.release()
