"""When to ask a running job again: pure schedules behind one small protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from schemas.policy import Policy, Polling


class PollSchedule(Protocol):
    """One per provider: it may learn from every job."""

    def next_delay(
        self, policy: Polling, elapsed_s: float, polls: int, hint_s: float | None, pages: int
    ) -> float:
        """Seconds until the next poll. ``elapsed_s`` since the service accepted the job, ``polls``
        made so far (0: the delay before the first), ``hint_s`` what the last answer asked for."""
        ...

    def learn(self, run_s: float, pages: int) -> None:
        """A job of ``pages`` pages took ``run_s`` seconds at the service."""
        ...


class Doubling:
    """First delay, multiplied each time, up to a ceiling."""

    def next_delay(
        self, policy: Polling, elapsed_s: float, polls: int, hint_s: float | None, pages: int
    ) -> float:
        delay = policy.first_delay_s * policy.multiplier ** min(polls, 60)
        return clamp_delay(min(policy.ceiling_s, delay), elapsed_s, hint_s, policy)

    def learn(self, run_s: float, pages: int) -> None:
        """Nothing to learn."""


def clamp_delay(delay: float, elapsed_s: float, hint_s: float | None, policy: Polling) -> float:
    """Honours the hint as a lower bound, then keeps within [floor, what is left until the
    deadline]: however far a hint reaches, the job is asked about once more at its deadline."""
    if hint_s is not None and policy.honour_hints:
        delay = max(delay, hint_s)
    left = policy.deadline_s - elapsed_s
    return max(policy.floor_s, min(delay, left)) if left > 0 else policy.floor_s


def schedule_for(policies: Sequence[Policy]) -> PollSchedule:
    """One schedule for a provider, shared by the policies that use it."""
    return Doubling()
