"""Polling without servers: a schedule against run times, no clock, no I/O."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from consumers.extraction.polling import PollSchedule
from schemas.policy import Polling

PAGES = (2, 4, 8, 16, 32)


@dataclass(frozen=True, slots=True)
class Job:
    run_s: float
    pages: int


@dataclass(frozen=True, slots=True)
class Polled:
    job: Job
    polls: int
    lag_s: float

    @property
    def lag_share(self) -> float:
        """Of the job's own run time."""
        return self.lag_s / self.job.run_s


def mix(count: int, *, per_page_s: float, sigma: float, seed: int = 1) -> Iterator[Job]:
    """Documents of all sizes, as long as each other; log-normal noise of shape ``sigma``."""
    rng = random.Random(seed)
    for _ in range(count):
        pages = rng.choice(PAGES)
        yield Job(per_page_s * pages * rng.lognormvariate(0, sigma), pages)


def poll(schedule: PollSchedule, policy: Polling, jobs: Iterable[Job]) -> list[Polled]:
    """One after the other; the schedule learns from each."""
    polled = []
    for job in jobs:
        age, polls = 0.0, 0
        while age < job.run_s:
            age += schedule.next_delay(policy, age, polls, None, job.pages)
            polls += 1
        schedule.learn(job.run_s, job.pages)
        polled.append(Polled(job, polls, age - job.run_s))
    return polled


def p95(values: Iterable[float]) -> float:
    ordered = sorted(values)
    return ordered[int(0.95 * len(ordered))]
