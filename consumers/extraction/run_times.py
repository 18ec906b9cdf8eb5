"""How long jobs ran, as a histogram that forgets: pure, a few dozen numbers per class of jobs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

BUCKETS_PER_OCTAVE = 64
"""One bucket is 1 % wide: a quarter of the finest step that jobs are polled at in practice."""
SHORTEST_S = 1e-3
MEMORY_JOBS = 1000.0
"""A job weighs 1/e of the newest one after so many others: a service that changes is followed."""
_RESCALE_AT = 1e100


class RunTimes:
    def __init__(self) -> None:
        self._weights: dict[int, float] = {}
        self._weight = 1.0
        self._total = 0.0
        self.jobs = 0
        """Learned from so far."""

    def add(self, run_s: float) -> None:
        bucket = math.floor(math.log2(max(run_s, SHORTEST_S)) * BUCKETS_PER_OCTAVE)
        self._weights[bucket] = self._weights.get(bucket, 0.0) + self._weight
        self._total += self._weight
        self.jobs += 1
        # The newest weighs more instead of all others less: no pass over the buckets.
        self._weight *= 1 + 1 / MEMORY_JOBS
        if self._weight > _RESCALE_AT:
            self._weights = {b: w / self._weight for b, w in self._weights.items()}
            self._total, self._weight = self._total / self._weight, 1.0

    def shares(self) -> list[tuple[float, float]]:
        """(seconds, share of all jobs) by rising seconds; the shares add up to 1."""
        return [
            (2.0 ** ((bucket + 0.5) / BUCKETS_PER_OCTAVE), weight / self._total)
            for bucket, weight in sorted(self._weights.items())
        ]

    def quantile(self, share: float) -> float:
        """Seconds within which this share of the jobs was done; 0 where none is known. Within a
        bucket the jobs are taken to lie evenly."""
        end, reached = 0.0, 0.0
        for bucket, weight in sorted(self._weights.items()):
            inside = weight / self._total
            part = min((share - reached) / inside, 1.0)
            end, reached = 2.0 ** ((bucket + part) / BUCKETS_PER_OCTAVE), reached + inside
            if reached >= share:
                break
        return end


def expected_polls(shares: Iterable[tuple[float, float]], times: Iterator[float]) -> float:
    """Polls that a job takes on average when it is asked at ``times`` (endless, rising)."""
    polls, at, expected = 0, -math.inf, 0.0
    for seconds, share in shares:
        while at < seconds:
            at = next(times)
            polls += 1
        expected += share * polls
    return expected
