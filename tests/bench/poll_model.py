"""Polling without servers: a schedule against run times, no clock, no I/O."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterable, Iterator, Sequence
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


def poll_together(
    schedule: PollSchedule,
    policy: Polling,
    jobs: Sequence[Job],
    *,
    per_s: float,
    begun_s: float,
    late_s: float,
    seed: int = 1,
) -> list[Polled]:
    """All jobs submitted at a rate, most of them running at the same time, so the schedule learns
    from the short ones first. The first wait of a job begins late, and every poll is answered late,
    exponentially with means ``begun_s`` and ``late_s``."""
    rng, polled = random.Random(seed), []
    # (time of the answer, number of the job, polls made, how late the answer is)
    answers = [
        (number / per_s + rng.expovariate(1) * begun_s, number, 0, 0.0)
        for number in range(len(jobs))
    ]
    heapq.heapify(answers)
    while answers:
        now, number, polls, late = heapq.heappop(answers)
        job, age = jobs[number], now - number / per_s
        if polls:
            schedule.asked(late)
        if polls and age >= job.run_s:
            schedule.learn(job.run_s, job.pages)
            polled.append(Polled(job, polls, age - job.run_s))
            continue
        delay = schedule.next_delay(policy, age, polls, None, job.pages)
        late = rng.expovariate(1) * late_s
        heapq.heappush(answers, (now + delay + late, number, polls + 1, late))
    return polled


def p95(values: Iterable[float]) -> float:
    ordered = sorted(values)
    return ordered[int(0.95 * len(ordered))]
