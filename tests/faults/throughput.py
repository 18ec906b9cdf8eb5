"""When work went on at full speed again after a disturbance: pure, on moments in seconds."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

WINDOW_S = 5.0
FULL = 0.9
DISTURBED = 0.7
STEP_S = 0.25


def rate(moments: Sequence[float], start: float, end: float) -> float:
    """Completions per second in [start, end); ``moments`` are sorted."""
    return (bisect_left(moments, end) - bisect_left(moments, start)) / (end - start)


def seconds_to_full(
    moments: Sequence[float], before: tuple[float, float], restored: float, *, horizon_s: float
) -> float | None:
    """Seconds from ``restored`` to the first moment from which on, for a window of 5 s, at least
    90 % as much was completed per second as in ``before``. 0 where nothing ever slowed down, None
    where it does not come within ``horizon_s``.

    What was under way when the disturbance began may still end at full rate: the search starts
    where the rate has fallen below 70 %.
    """
    moments = sorted(moments)
    usual = rate(moments, *before)
    steps = [restored + STEP_S * n for n in range(int(horizon_s / STEP_S))]
    rates = [(start, rate(moments, start, start + WINDOW_S)) for start in steps]
    slow = next((n for n, (_, now) in enumerate(rates) if now < DISTURBED * usual), None)
    if slow is None:
        return 0.0
    for start, now in rates[slow:]:
        if now >= FULL * usual:
            return round(start - restored, 2)
    return None
