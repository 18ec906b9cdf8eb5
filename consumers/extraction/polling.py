"""When to ask a running job again: pure schedules behind one small protocol."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from consumers.extraction.run_times import RunTimes, expected_polls
from schemas.policy import Policy, Polling


class PollSchedule(Protocol):
    """One per provider: it may learn from every job."""

    def next_delay(
        self, policy: Polling, elapsed_s: float, polls: int, hint_s: float | None, pages: int
    ) -> float:
        """Seconds until the next poll. ``elapsed_s`` since the service accepted the job, ``polls``
        made so far (0: the delay before the first), ``hint_s`` what the last answer asked for."""
        ...

    def asked(self, late_s: float) -> None:
        """A poll was answered ``late_s`` seconds after its delay had passed: calls take time, and
        a busy worker comes to them late."""
        ...

    def learn(self, run_s: float, pages: int) -> None:
        """A job of ``pages`` pages took ``run_s`` seconds at the service."""
        ...


class Doubling:
    """First delay, multiplied each time, up to a ceiling."""

    def next_delay(
        self, policy: Polling, elapsed_s: float, polls: int, hint_s: float | None, pages: int
    ) -> float:
        return clamp_delay(_doubled(policy, polls), elapsed_s, hint_s, policy)

    def asked(self, late_s: float) -> None:
        """Nothing to learn."""

    def learn(self, run_s: float, pages: int) -> None:
        """Nothing to learn."""


class Learned:
    """Rarely before a job of this size is likely to end, then at steps that grow with its age.

    A step of a share ``growth`` of the age bounds the lag to that share of the run time. The
    smallest growth is used with which all jobs together take no more polls than doubling would:
    the polls that are not made early, or on jobs whose end is known well, make the steps finer.
    A step is from answer to answer: what polls usually come late is taken off the wait.

    A size of which too little is known is polled by doubling.
    """

    def __init__(self) -> None:
        self._sizes: dict[int, RunTimes] = {}
        self._late_s = self._begun_s = 0.0
        """How late polls usually are, and how old a job is when its first wait begins."""
        self._learned = 0
        self._plan_at = ENOUGH_JOBS
        self._plans: dict[Polling, _Plan] = {}

    def next_delay(
        self, policy: Polling, elapsed_s: float, polls: int, hint_s: float | None, pages: int
    ) -> float:
        if not polls:
            self._begun_s += LATE_WEIGHT * (min(elapsed_s, policy.ceiling_s) - self._begun_s)
        plan = self._plans.get(policy)
        if plan is None:
            plan = self._plans[policy] = _plan(policy, self._sizes, self._begun_s, self._late_s)
        start_s = plan.start_s.get(_size(pages))
        if start_s is None:
            delay = _doubled(policy, polls)
        else:
            delay = _step(policy, elapsed_s, start_s, plan.growth) - self._late_s
        return clamp_delay(delay, elapsed_s, hint_s, policy)

    def asked(self, late_s: float) -> None:
        self._late_s += LATE_WEIGHT * (min(late_s, LATEST_S) - self._late_s)

    def learn(self, run_s: float, pages: int) -> None:
        self._sizes.setdefault(_size(pages), RunTimes()).add(run_s)
        self._learned += 1
        if self._learned >= self._plan_at:
            # Often while every job tells something new, then now and then.
            self._plan_at = self._learned + min(max(self._learned // 4, 10), 500)
            self._plans.clear()


ENOUGH_JOBS = 20
"""Of a size, before its run times are believed."""
EARLY_SHARE = 0.045
"""Of the jobs may end before the first poll that is meant to find them finished."""
SPENT_SHARE = 0.99
"""Of doubling's polls are planned with: the jobs to come are not quite those that were."""
LATE_WEIGHT = 0.05
"""Of the newest poll in the mean lateness: some twenty polls tell that a worker became busy."""
LATEST_S = 1.0
"""No poll counts as later: it was an outage or a throttle, and says nothing of the next."""
GROWTH_BOUNDS = (0.03, 2.0)
"""A lag of three hundredths of the run time is worth no further poll: where run times are known
well, jobs take fewer polls than with doubling and not a smaller lag."""
HORIZON_CEILINGS = 100
"""Times the ceiling: beyond it every schedule polls at the ceiling, so nothing is to be planned."""
_HALVINGS = 9


class _Plan:
    """Where to start per size, and how to go on."""

    def __init__(self, start_s: dict[int, float], growth: float) -> None:
        self.start_s = start_s
        self.growth = growth


def _plan(policy: Polling, sizes: dict[int, RunTimes], begun_s: float, late_s: float) -> _Plan:
    known = {size: times for size, times in sizes.items() if times.jobs >= ENOUGH_JOBS}
    horizon = HORIZON_CEILINGS * policy.ceiling_s
    shares = {
        size: [(min(seconds, horizon), share) for seconds, share in times.shares()]
        for size, times in known.items()
    }
    early = {size: times.quantile(EARLY_SHARE) for size, times in known.items()}
    budget = SPENT_SHARE * sum(
        times.jobs
        * expected_polls(shares[size], _times(lambda _, n: _doubled(policy, n) + late_s, begun_s))
        for size, times in known.items()
    )

    def start_s(size: int, growth: float) -> float:
        return early[size] * (1 + growth)

    def cost(growth: float) -> float:
        total = 0.0
        for size, times in known.items():
            start = start_s(size, growth)

            def step(age: float, _: int, start: float = start) -> float:
                return max(policy.floor_s + late_s, _step(policy, age, start, growth))

            total += times.jobs * expected_polls(shares[size], _times(step, begun_s))
        return total

    low, high = GROWTH_BOUNDS
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        if cost(middle) <= budget:
            high = middle
        else:
            low = middle
    return _Plan({size: start_s(size, high) for size in known}, high)


def _step(policy: Polling, age_s: float, start_s: float, growth: float) -> float:
    # A poll less than a step before the start is the start: by another clock, because it was less
    # late than usual, or because one was due anyway at the ceiling.
    return min(policy.ceiling_s, max(start_s - age_s, growth * age_s))


def _doubled(policy: Polling, polls: int) -> float:
    return float(min(policy.ceiling_s, policy.first_delay_s * policy.multiplier ** min(polls, 60)))


def _times(delay: Callable[[float, int], float], begun_s: float) -> Iterator[float]:
    """When a job is polled, given the delay by its age and the polls made, and its first age."""
    age, polls = begun_s, 0
    while True:
        age += delay(age, polls)
        polls += 1
        yield age


def _size(pages: int) -> int:
    """Quarters of an octave: a run time that grows with the pages varies by a fifth within one."""
    return math.floor(4 * math.log2(max(pages, 1)))


def clamp_delay(delay: float, elapsed_s: float, hint_s: float | None, policy: Polling) -> float:
    """Honours the hint as a lower bound, then keeps within [floor, what is left until the
    deadline]: however far a hint reaches, the job is asked about once more at its deadline."""
    if hint_s is not None and policy.honour_hints:
        delay = max(delay, hint_s)
    left = policy.deadline_s - elapsed_s
    return max(policy.floor_s, min(delay, left)) if left > 0 else policy.floor_s


def before_it_is_gone(delay_s: float, kept_s: float | None) -> float:
    """A delay, whoever asked for it, with which a result that is kept for ``kept_s`` seconds is
    seen in time, and once more if that poll fails. None: it is kept for ever, or nobody knows."""
    return delay_s if kept_s is None else min(delay_s, kept_s / 2)


def schedule_for(policies: Sequence[Policy]) -> PollSchedule:
    """One schedule for a provider, shared by the policies that use it."""
    return _ByStrategy()


class _ByStrategy:
    """What each policy asks for. All learn from all jobs: their service is the same."""

    def __init__(self) -> None:
        self._doubling, self._learned = Doubling(), Learned()

    def next_delay(
        self, policy: Polling, elapsed_s: float, polls: int, hint_s: float | None, pages: int
    ) -> float:
        schedule: PollSchedule = self._learned if policy.strategy == "learned" else self._doubling
        return schedule.next_delay(policy, elapsed_s, polls, hint_s, pages)

    def asked(self, late_s: float) -> None:
        self._learned.asked(late_s)

    def learn(self, run_s: float, pages: int) -> None:
        self._learned.learn(run_s, pages)
