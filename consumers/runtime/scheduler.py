"""Drives tasks: what each effect of `consumers.runtime.effects` does in production.

Everything here happens on one thread, the one that calls `Scheduler.step`: task code, timers,
permits and delivery reports. Only the ``call`` of a `Perform` runs elsewhere, and comes back
through one queue. So nothing in here is locked, and a waiting task costs a heap entry.

How a task may end, and what its ``on_end`` is told:

* it returns: ``Outcome(value=...)``; it raises: ``Outcome(error=...)``;
* it was drained or cancelled: ``Outcome(error=TaskClosed())``. Its ``finally`` blocks have run and
  a permit that was granted but not yet received has been released.

A task whose call is running in a pool is never closed under it (the call may be using the file
that a ``finally`` deletes): it is closed when the call returns, and the result is dropped.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import time
from collections import deque
from collections.abc import Callable, Collection, Hashable, Mapping
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Protocol, assert_never

from consumers.runtime.clock import Clock, SystemClock
from consumers.runtime.effects import (
    Acquire,
    Effect,
    Message,
    Outcome,
    Perform,
    Publish,
    PublishRefused,
    SafePoint,
    Sleep,
    Task,
    Together,
)
from consumers.runtime.limiter import Permit, Request
from consumers.runtime.pools import Job, Pools, PoolSettings, PoolStats
from consumers.runtime.runs import Run, State, TaskClosed

__all__ = ["STEP_INTERVAL", "DeliveryQueue", "Handle", "Scheduler", "TaskClosed"]

STEP_INTERVAL = 0.004
"""Seconds, for a worker on real threads. Under load a step that began at once would find a single
finished call, and a step costs as much as the call's task does; a call that comes after some quiet
is never held up. It saves about a tenth of the worker's CPU."""

# How long one `step` runs tasks before it hands the thread back to the control loop (seconds).
_STEP_BUDGET = 0.05
# Delivery reports are only served when the producer is polled, so look often while one is due.
_PUBLISH_WAIT = 0.005


class DeliveryQueue(Protocol):
    """What `Publish` needs of a publisher (`consumers.runtime.publisher`)."""

    def publish(
        self, message: Message, on_delivery: Callable[[PublishRefused | None], None]
    ) -> None:
        """Never raises; ``on_delivery`` is called from a later `poll`, on the same thread."""
        ...

    def poll(self) -> None:
        """Serve what has been delivered or refused. Does not block."""
        ...

    @property
    def outstanding(self) -> int:
        """Records whose fate is not yet known."""
        ...


def _ends_a_drain(effect: Effect) -> bool:
    match effect:
        case Sleep() | SafePoint():
            return True
        case Acquire():
            return not effect.through_drain
        case _:
            return False


class Handle:
    """One started task."""

    __slots__ = ("_run", "_scheduler")

    def __init__(self, scheduler: Scheduler, run: Run) -> None:
        self._scheduler = scheduler
        self._run = run

    @property
    def ended(self) -> bool:
        """``on_end`` has been called."""
        return self._run.state is State.ENDED

    def cancel(self) -> None:
        """Close the task now, or as soon as its call in a pool returns."""
        self._scheduler._cancel_root(self._run)


class Scheduler:
    """See the module. All methods but `wake` belong to the one thread that calls `step`."""

    def __init__(
        self,
        pools: Mapping[str, PoolSettings],
        publisher: DeliveryQueue | None = None,
        clock: Clock | None = None,
        step_interval: float = 0.0,
    ) -> None:
        """``step_interval``: steps begin no quicker after each other, in seconds of real time."""
        self._step_interval = step_interval
        self.clock: Clock = clock if clock is not None else SystemClock()
        self._completions: SimpleQueue[Job | None] = SimpleQueue()
        self._pools = Pools(pools, self._completions, self.clock)
        self._publisher = publisher
        self._ready: deque[Run] = deque()
        self._timers: list[tuple[float, int, Run]] = []
        self._timer_ids = itertools.count()
        self._sleeping = 0
        self._roots: dict[Hashable, set[Run]] = {}
        self._stepping = False
        self._stepped_at = float("-inf")
        self.waited = 0.0
        """Seconds that `step` has spent waiting, in all."""

    # -- starting and ending tasks -----------------------------------------------------------

    def start(self, task: Task, on_end: Callable[[Outcome], None], tag: Hashable) -> Handle:
        """Drive ``task`` from the next `step` on.

        :param on_end: called once, on this thread, when the task has ended; what it raises comes
            out of `step`.
        :param tag: what `cancel` and `drain` know it by; many tasks may share one.
        """
        run = Run(task)
        run.tag = tag
        run.on_end = on_end
        self._roots.setdefault(tag, set()).add(run)
        self._ready.append(run)
        return Handle(self, run)

    def cancel(self, tag: Hashable) -> None:
        """Close every task of ``tag`` now, or as soon as its call in a pool returns."""
        for run in list(self._roots.get(tag, ())):
            self._cancel_root(run)

    def drain(
        self,
        tags: Collection[Hashable],
        deadline: float,
        tick: Callable[[], None] = lambda: None,
    ) -> set[Hashable]:
        """Let the tasks of ``tags`` run on to their next `Sleep`, `SafePoint` or `Acquire`, close
        them there, and return when all have ended or at ``deadline``.

        Other tasks go on as usual. A call in progress is waited for; its result still reaches the
        task, so what it paid for can be recorded.

        :param deadline: on the clock's monotonic scale, seconds.
        :param tick: called every few milliseconds, so that a heartbeat can go on.
        :returns: the tags that still have tasks. They stay draining: cancel them, or step on.
        """
        for tag in tags:
            for run in list(self._roots.get(tag, ())):
                run.draining = True
                self._drain_run(run)
        while True:
            left = {tag for tag in tags if tag in self._roots}
            remaining = deadline - self.clock.monotonic()
            if not left or remaining <= 0:
                return left
            tick()
            self.step(min(0.01, remaining))

    def tags(self) -> list[Hashable]:
        """The tags that have tasks."""
        return list(self._roots)

    def count(self, tag: Hashable) -> int:
        """Tasks of ``tag`` that have not ended."""
        return len(self._roots.get(tag, ()))

    @property
    def running(self) -> int:
        """Started tasks that have not ended (children of `Together` not counted)."""
        return sum(len(runs) for runs in self._roots.values())

    @property
    def waiting_for_time(self) -> int:
        """Tasks and children in a `Sleep`."""
        return self._sleeping

    def pool_stats(self) -> dict[str, PoolStats]:
        """Numbers per pool name."""
        return self._pools.stats()

    def wake(self) -> None:
        """End the wait of `step` early. The one method that any thread or signal may call."""
        self._completions.put(None)

    # -- the loop ------------------------------------------------------------------------------

    def step(self, timeout: float) -> bool:
        """Run what can run; if nothing can, wait at most ``timeout`` seconds for the first timer
        or finished call and run that. Gives False when nothing ran."""
        if self._stepping:
            raise RuntimeError("step() was called from inside a task or an on_end")
        self._stepping = True
        try:
            self._rest()
            self._gather()
            if not self._ready:
                self._wait(timeout)
            return self._run_ready()
        finally:
            self._stepping = False

    def _rest(self) -> None:
        if not self._step_interval:
            return
        now = self.clock.monotonic()
        early = self._stepped_at + self._step_interval - now
        if early > 0 and not self._ready:
            time.sleep(early)
            after = self.clock.monotonic()
            self.waited += after - now
            now = after
        self._stepped_at = now

    def _gather(self) -> None:
        if self._publisher is not None:
            self._publisher.poll()
        timers = self._timers
        if timers:
            now = self.clock.monotonic()
            while timers and timers[0][0] <= now:
                run = heapq.heappop(timers)[2]
                if run.state is State.SLEEPING:  # else it was closed meanwhile
                    self._sleeping -= 1
                    self._make_ready(run)
        take = self._completions.get_nowait
        try:
            while True:
                self._completed(take())
        except Empty:
            pass

    def _wait(self, timeout: float) -> None:
        if self._timers:
            timeout = min(timeout, self._timers[0][0] - self.clock.monotonic())
        if self._publisher is not None and self._publisher.outstanding:
            timeout = min(timeout, _PUBLISH_WAIT)
        if timeout > 0:
            started = self.clock.monotonic()
            with contextlib.suppress(Empty):
                self._completed(self._completions.get(timeout=timeout))
            self.waited += self.clock.monotonic() - started
            self._gather()

    def _run_ready(self) -> bool:
        ready = self._ready
        if not ready:
            return False
        end = self.clock.monotonic() + _STEP_BUDGET
        count = 0
        while ready:
            run = ready.popleft()
            if run.state is State.READY or run.state is State.NEW:
                self._advance(run)
            count += 1
            if not count % 32 and self.clock.monotonic() >= end:
                break
        return True

    def _completed(self, job: Job | None) -> None:
        if job is None:  # `wake`
            return
        self._pools.collect(job)
        run: Run = job.owner
        if run.root.cancelled:
            self._close(run)
        else:
            self._make_ready(run, job.value, job.error)

    def _make_ready(self, run: Run, value: Any = None, error: BaseException | None = None) -> None:
        run.state = State.READY
        run.value = value
        run.error = error
        run.waiting_on = None
        self._ready.append(run)

    def _advance(self, run: Run) -> None:
        value, error = run.value, run.error
        run.value = run.error = None
        run.state = State.RUNNING
        task = run.task
        while True:
            try:
                effect = task.send(value) if error is None else task.throw(error)
            except StopIteration as stop:
                self._end(run, Outcome(value=stop.value))
                return
            except KeyboardInterrupt:
                raise
            except BaseException as raised:
                self._end(run, Outcome(error=raised))
                return
            value = error = None
            if run.root.cancelled or (run.root.draining and _ends_a_drain(effect)):
                self._close(run)
                return
            if isinstance(effect, SafePoint):
                continue
            if isinstance(effect, Acquire):
                value = effect.limiter.free_place(effect.share)
                if value is not None:  # as most are: not worth another turn of this loop
                    continue
            try:
                self._begin(run, effect)
                return
            except (AssertionError, ValueError) as raised:
                error = raised  # a wrong effect is the task's own error

    def _begin(self, run: Run, effect: Perform | Sleep | Acquire | Publish | Together) -> None:
        """Set off what the task asked for.

        :raises ValueError, AssertionError: it cannot be done at all.
        """
        match effect:
            case Perform():
                run.waiting_on = self._pools.submit(effect.pool, effect.call, run)
                run.state = State.PERFORMING
            case Sleep():
                run.state = State.SLEEPING
                self._sleeping += 1
                due = self.clock.monotonic() + effect.seconds
                heapq.heappush(self._timers, (due, next(self._timer_ids), run))
            case Publish():
                if self._publisher is None:
                    raise ValueError("this scheduler was given no publisher")
                run.state = State.PUBLISHING
                self._publisher.publish(effect.message, partial(self._delivered, run))
            case Acquire():
                run.state = (
                    State.ACQUIRING_THROUGH_DRAIN if effect.through_drain else State.ACQUIRING
                )
                request = effect.limiter.request(effect.share, partial(self._granted, run))
                if request.waiting:
                    run.waiting_on = request
            case Together():
                self._begin_together(run, effect)
            case _:
                assert_never(effect)

    def _begin_together(self, run: Run, effect: Together) -> None:
        if not effect.children:
            self._make_ready(run, [])
            return
        run.state = State.JOINING
        run.children = [Run(child, run, slot) for slot, child in enumerate(effect.children)]
        run.outcomes = [Outcome()] * len(run.children)
        run.unfinished = len(run.children)
        run.closed_child = False
        self._ready.extend(run.children)

    def _granted(self, run: Run, permit: Permit) -> None:
        if run.state in (State.ACQUIRING, State.ACQUIRING_THROUGH_DRAIN):
            self._make_ready(run, permit)
        else:  # cannot happen while requests are cancelled on close; a lost place would be for ever
            permit.release()

    def _delivered(self, run: Run, refused: PublishRefused | None) -> None:
        if run.state is State.PUBLISHING:  # else it was cancelled meanwhile
            self._make_ready(run, None, refused)

    # -- ending --------------------------------------------------------------------------------

    def _end(self, run: Run, outcome: Outcome) -> None:
        run.state = State.ENDED
        run.waiting_on = None
        run.children = []
        parent = run.parent
        if parent is None:
            runs = self._roots[run.tag]
            runs.discard(run)
            if not runs:
                del self._roots[run.tag]
            on_end, run.on_end = run.on_end, None  # which mostly holds this run's handle
            if on_end is not None:
                on_end(outcome)
            return
        parent.outcomes[run.slot] = outcome
        parent.closed_child |= isinstance(outcome.error, TaskClosed)
        parent.unfinished -= 1
        if parent.unfinished:
            return
        if parent.closed_child or run.root.cancelled:
            self._close(parent)
        else:
            outcomes, parent.outcomes, parent.children = parent.outcomes, [], []
            self._make_ready(parent, outcomes)

    def _close(self, run: Run) -> None:
        if isinstance(run.waiting_on, Request):
            run.waiting_on.cancel()
        elif run.state is State.READY and isinstance(run.value, Permit):
            run.value.release()
        elif run.state is State.SLEEPING:
            self._sleeping -= 1
        run.value = run.error = None
        try:
            run.task.close()
        except KeyboardInterrupt:
            raise
        except BaseException as raised:
            self._end(run, Outcome(error=raised))
        else:
            self._end(run, Outcome(error=TaskClosed()))

    def _drain_run(self, run: Run) -> None:
        match run.state:
            case State.NEW | State.SLEEPING | State.ACQUIRING:
                self._close(run)
            case State.JOINING:
                for child in list(run.children):
                    self._drain_run(child)
            case _:
                pass  # runs on; `_begin` closes it at its next safe place

    def _cancel_root(self, run: Run) -> None:
        if run.state is not State.ENDED:
            run.cancelled = True
            self._cancel_run(run)

    def _cancel_run(self, run: Run) -> None:
        match run.state:
            case State.ENDED | State.RUNNING:
                pass  # a running one (it cancels itself) is closed at its next effect
            case State.PERFORMING:
                if isinstance(run.waiting_on, Job):
                    run.waiting_on.cancelled = True
            case State.JOINING:
                for child in list(run.children):
                    self._cancel_run(child)
            case _:
                self._close(run)
