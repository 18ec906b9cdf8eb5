"""The production scheduler, with pools and waiting replaced by virtual time.

Everything that decides how a task runs, drains and ends is `consumers.runtime.scheduler` itself.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterator
from queue import SimpleQueue
from typing import Any, cast

from consumers.runtime.clock import Clock
from consumers.runtime.effects import Outcome, Task
from consumers.runtime.pools import Job, Pools
from consumers.runtime.scheduler import DeliveryQueue, Handle, Scheduler


class SimPools(Pools):
    """Hands every call to the simulation instead of to a thread, as soon as one would be free."""

    def __init__(self, clock: Clock, begin: Callable[[Job], None], threads: int | None) -> None:
        """``threads``: of each pool; None: as many as there are calls."""
        super().__init__({}, SimpleQueue(), clock)
        self._begin = begin
        self._threads = threads
        self._running: defaultdict[str, int] = defaultdict(int)
        self._queued: defaultdict[str, deque[Job]] = defaultdict(deque)

    def submit(self, pool: str, call: Callable[[], Any], owner: Any) -> Job:
        job = Job(pool, call, owner, self._clock.monotonic())
        self._queued[pool].append(job)
        self._begin_next(pool)
        return job

    def collect(self, job: Job) -> None:
        self._running[job.pool] -= 1
        self._begin_next(job.pool)

    def _begin_next(self, pool: str) -> None:
        free = self._threads is None or self._running[pool] < self._threads
        if free and self._queued[pool]:
            self._running[pool] += 1
            self._begin(self._queued[pool].popleft())


class _InOrder(dict[Any, None]):
    """A set that is iterated in the order of insertion: hashes differ from run to run."""

    def add(self, item: Any) -> None:
        self[item] = None

    def discard(self, item: Any) -> None:
        self.pop(item, None)

    def __iter__(self) -> Iterator[Any]:
        return iter(list(super().__iter__()))


class SimScheduler(Scheduler):
    def __init__(
        self,
        clock: Clock,
        publisher: DeliveryQueue,
        begin: Callable[[Job], None],
        wait: Callable[[], None],
        threads: int | None = None,
    ) -> None:
        """
        :param begin: is handed each call that a task performs.
        :param wait: lets something else happen while a drain waits.
        :param threads: see `SimPools`.
        """
        super().__init__({}, publisher, clock)
        self._pools = SimPools(clock, begin, threads)
        self._let_others_run = wait

    def start(self, task: Task, on_end: Callable[[Outcome], None], tag: Hashable) -> Handle:
        self._roots.setdefault(tag, cast(Any, _InOrder()))
        return super().start(task, on_end, tag)

    def answered(self, job: Job) -> None:
        """The call's answer reaches the control thread."""
        self._completions.put(job)

    @property
    def next_timer(self) -> float | None:
        return self._timers[0][0] if self._timers else None

    def _wait(self, timeout: float) -> None:
        if timeout > 0:
            self._let_others_run()
            self._gather()
