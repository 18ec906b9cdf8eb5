"""Bounded thread pools for blocking I/O, one per kind of work.

Unlike `concurrent.futures`, the workers are daemon threads that nobody joins: an HTTP call that
hangs must not keep a process alive that wants to end. Finished calls go to one queue that the
control thread reads; pool threads touch nothing else.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from consumers.runtime.clock import Clock


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """``threads``: how many calls of this pool run at the same time, at least 1."""

    threads: int

    def __post_init__(self) -> None:
        if self.threads < 1:
            raise ValueError(f"a pool needs at least 1 thread, not {self.threads}")


@dataclass(frozen=True, slots=True)
class PoolStats:
    """Numbers of one pool, taken on the control thread. Times are in seconds since the start."""

    threads: int
    queued: int
    in_progress: int
    oldest_in_progress_seconds: float
    """0.0 when nothing runs. Far above the calls' own deadlines = a hung thread."""
    completed: int
    wait_seconds_total: float
    run_seconds_total: float


class CallSkipped(Exception):
    """The call was cancelled while it was still queued, so it never ran."""


class Job:
    """One call on its way through a pool. ``value``/``error`` are set once it is in the queue of
    completions; times are on the monotonic clock."""

    __slots__ = (
        "call",
        "cancelled",
        "ended_at",
        "error",
        "owner",
        "pool",
        "queued_at",
        "started_at",
        "value",
    )

    def __init__(self, pool: str, call: Callable[[], Any], owner: Any, queued_at: float) -> None:
        self.pool = pool
        self.call: Callable[[], Any] | None = call
        self.owner = owner
        self.cancelled = False
        self.queued_at = queued_at
        self.started_at = queued_at
        self.ended_at = queued_at
        self.value: Any = None
        self.error: BaseException | None = None

    def run(self, clock: Clock) -> None:
        """In the pool thread. Never raises: hostile input may make a library raise anything."""
        self.started_at = clock.monotonic()
        call, self.call = self.call, None
        if self.cancelled or call is None:
            self.error = CallSkipped()
        else:
            try:
                self.value = call()
            except BaseException as error:
                self.error = error
        self.ended_at = clock.monotonic()


class _Pool:
    def __init__(
        self, name: str, settings: PoolSettings, completions: SimpleQueue[Job | None], clock: Clock
    ) -> None:
        self.name = name
        self.threads = settings.threads
        self.jobs: SimpleQueue[Job] = SimpleQueue()
        # One slot per thread, written by that thread alone: no lock, and a hung one shows its age.
        self.started_at: list[float | None] = []
        self.outstanding = 0
        self.completed = 0
        self.wait_seconds = 0.0
        self.run_seconds = 0.0
        self._completions = completions
        self._clock = clock

    def submit(self, job: Job) -> None:
        self.outstanding += 1
        self.jobs.put(job)
        if len(self.started_at) < min(self.threads, self.outstanding):
            slot = len(self.started_at)
            self.started_at.append(None)
            threading.Thread(
                target=self._work, args=(slot,), name=f"pool-{self.name}-{slot}", daemon=True
            ).start()

    def _work(self, slot: int) -> None:
        while True:
            job = self.jobs.get()
            self.started_at[slot] = self._clock.monotonic()
            job.run(self._clock)
            self.started_at[slot] = None
            self._completions.put(job)
            del job  # its result may be large, and the next call may be hours away

    def collect(self, job: Job) -> None:
        self.outstanding -= 1
        self.completed += 1
        self.wait_seconds += job.started_at - job.queued_at
        self.run_seconds += job.ended_at - job.started_at

    def stats(self) -> PoolStats:
        running = [at for at in self.started_at if at is not None]
        now = self._clock.monotonic()
        return PoolStats(
            threads=self.threads,
            queued=self.jobs.qsize(),
            in_progress=len(running),
            oldest_in_progress_seconds=max(0.0, now - min(running)) if running else 0.0,
            completed=self.completed,
            wait_seconds_total=self.wait_seconds,
            run_seconds_total=self.run_seconds,
        )


class Pools:
    """Named pools that post every finished `Job` to ``completions``.

    All methods belong to one thread, the one that reads ``completions``.
    """

    def __init__(
        self,
        settings: Mapping[str, PoolSettings],
        completions: SimpleQueue[Job | None],
        clock: Clock,
    ) -> None:
        self._clock = clock
        self._pools = {name: _Pool(name, s, completions, clock) for name, s in settings.items()}

    def submit(self, pool: str, call: Callable[[], Any], owner: Any) -> Job:
        """Queue ``call``; threads are started as they are first needed.

        :raises ValueError: there is no such pool.
        """
        target = self._pools.get(pool)
        if target is None:
            known = ", ".join(sorted(self._pools)) or "none"
            raise ValueError(f"no thread pool is named {pool!r}; the pools are: {known}")
        job = Job(pool, call, owner, self._clock.monotonic())
        target.submit(job)
        return job

    def collect(self, job: Job) -> None:
        """Count a job that came out of the completions."""
        self._pools[job.pool].collect(job)

    def stats(self) -> dict[str, PoolStats]:
        """Numbers per pool name."""
        return {name: pool.stats() for name, pool in self._pools.items()}
