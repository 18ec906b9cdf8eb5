"""When to ask a running job again: pure schedules behind one small protocol."""

from __future__ import annotations

from typing import Protocol

from schemas.policy import Polling


class PollSchedule(Protocol):
    def next_delay(self, elapsed_s: float, polls: int, hint_s: float | None) -> float:
        """Seconds until the next poll. ``elapsed_s`` since the service accepted the job, ``polls``
        made so far (0: the delay before the first), ``hint_s`` what the last answer asked for."""
        ...


class Doubling:
    """First delay, multiplied each time, up to a ceiling. A hint is a floor, never a shortcut
    below the policy's own floor, and is clamped to the ceiling of the policy's deadline."""

    def __init__(self, policy: Polling) -> None:
        self._policy = policy

    def next_delay(self, elapsed_s: float, polls: int, hint_s: float | None) -> float:
        p = self._policy
        delay = min(p.ceiling_s, p.first_delay_s * p.multiplier ** min(polls, 60))
        return clamp_delay(delay, elapsed_s, hint_s, p)


def clamp_delay(delay: float, elapsed_s: float, hint_s: float | None, policy: Polling) -> float:
    """Honours the hint, then keeps within [floor, what is left until the deadline]."""
    if hint_s is not None and policy.honour_hints:
        delay = max(delay, hint_s)
    left = policy.deadline_s - elapsed_s
    return max(policy.floor_s, min(delay, left)) if left > 0 else policy.floor_s
