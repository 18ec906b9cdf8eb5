"""How small poll lag could be at best: nobody can poll better than this, however much is learned.

Given are the distribution of run times, known exactly, and a budget of polls per job. A poll at
``t`` sees jobs that ended since ``t / (1 + ratio)`` with a lag of at most ``ratio`` of their run
time; so the question is which moments, within floor and ceiling of the policy, leave at most 5 %
of the jobs without such a poll. Cheapest moments are found by dynamic programming on a grid, with
a price on jobs that are seen late; the price that is hardest on the schedule gives a lower bound
on its polls, so what comes out is a bound, up to the grid.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from schemas.policy import Polling

LATE_SHARE = 0.05
"""Of the jobs may be seen later: the lag is that of the 95th percentile."""
STEPS_OF_A_RATIO = 6
STEPS_OF_A_CEILING = 4
TAIL = 3.5
"""Standard deviations beyond which no job is looked for."""
_HALVINGS = 9
_NARROWINGS = 16


@dataclass(frozen=True, slots=True)
class Size:
    """Jobs of one size: ``median_s`` and the shape of their log-normal run times."""

    median_s: float
    sigma: float

    def done(self, seconds: NDArray[np.float64]) -> NDArray[np.float64]:
        """Share of the jobs that ended by then."""
        shapes = (np.log(np.maximum(seconds, 1e-9)) - math.log(self.median_s)) / self.sigma
        return np.array([0.5 * math.erfc(-shape / math.sqrt(2)) for shape in shapes])


def least_lag_ratio(sizes: Sequence[Size], polls_per_job: float, policy: Polling) -> float:
    """The smallest 95th percentile of lag by run time with so many polls per job on average, of
    sizes that are equally frequent."""
    low, high = math.log(0.002), math.log(8.0)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if least_polls(sizes, math.exp(middle), policy) <= polls_per_job:
            high = middle
        else:
            low = middle
    return math.exp(high)


def least_polls(sizes: Sequence[Size], ratio: float, policy: Polling) -> float:
    """Polls per job with which 95 % of the lags are at most ``ratio`` of the run time."""
    moments = [_Moments.of(size, ratio, policy) for size in sizes]

    def bound(price: float) -> float:
        cost = sum(of_size.cost(price) for of_size in moments) / len(moments)
        return cost - price * LATE_SHARE

    # Concave in the price: of three parts, the one that cannot have the maximum is dropped.
    low, high = math.log(0.01), math.log(1000.0)
    for _ in range(_NARROWINGS):
        first, second = low + (high - low) / 3, high - (high - low) / 3
        if bound(math.exp(first)) < bound(math.exp(second)):
            low = first
        else:
            high = second
    return max(bound(math.exp((low + high) / 2)), 1.0)


@dataclass(frozen=True, slots=True)
class _Moments:
    """The moments at which jobs of a size may be polled, 0 the first, and what comes next."""

    running: NDArray[np.float64]
    """Share of the jobs that still run at each moment."""
    late: Sequence[NDArray[np.float64]]
    """By moment: share of the jobs seen late when each of the possible next polls is the next."""
    first: Sequence[int]
    """By moment: the earliest possible next one."""

    @classmethod
    def of(cls, size: Size, ratio: float, policy: Polling) -> _Moments:
        times = _grid(size, ratio, policy)
        done, seen = size.done(times), size.done(times / (1 + ratio))
        first, late = [], []
        for at, time in enumerate(times[:-1]):
            begin = int(np.searchsorted(times, time + policy.floor_s * (1 - 1e-9)))
            end = int(np.searchsorted(times, time + policy.ceiling_s * (1 + 1e-9)))
            begin = min(begin, len(times) - 1)
            first.append(begin)
            late.append(np.maximum(seen[begin : max(end, begin + 1)] - done[at], 0.0))
        return cls(1 - done, late, first)

    def cost(self, price: float) -> float:
        """Polls per job, and ``price`` for each job that is seen late."""
        best = np.zeros(len(self.running))
        for at in range(len(self.first) - 1, -1, -1):
            late, first = self.late[at], self.first[at]
            best[at] = self.running[at] + np.min(price * late + best[first : first + len(late)])
        return float(best[0])


def _grid(size: Size, ratio: float, policy: Polling) -> NDArray[np.float64]:
    """Finer than a step that bounds the lag, and than the ceiling; longer jobs are left out."""
    latest = min(size.median_s * math.exp(TAIL * size.sigma), policy.deadline_s)
    earliest = min(size.median_s * math.exp(-TAIL * size.sigma), policy.ceiling_s) / 2
    share, longest = (1 + ratio) ** (1 / STEPS_OF_A_RATIO), policy.ceiling_s / STEPS_OF_A_CEILING
    times = [0.0, max(earliest, policy.floor_s)]
    while times[-1] < latest:
        times.append(min(times[-1] * share, times[-1] + longest))
    return np.array(times)
