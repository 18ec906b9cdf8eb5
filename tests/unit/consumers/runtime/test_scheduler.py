"""The scheduler: every effect, every way to end a task, and that nothing is closed under a call."""

from __future__ import annotations

import gc
import threading
from collections.abc import Generator
from functools import partial
from typing import Any

import pytest

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
from consumers.runtime.limiter import Limiter
from consumers.runtime.pools import PoolSettings
from consumers.runtime.scheduler import STEP_INTERVAL, Scheduler, TaskClosed
from tests.unit.consumers.runtime.fakes import FakeClock, FakeDeliveries, Gate, step_until

MESSAGE = Message("results", b"key", b"value")


class Harness:
    """A scheduler under a clock of the test's, and what its tasks did."""

    def __init__(self, threads: int = 2) -> None:
        self.clock = FakeClock()
        self.deliveries = FakeDeliveries()
        self.scheduler = Scheduler({"io": PoolSettings(threads)}, self.deliveries, self.clock)
        self.ended: list[Outcome] = []
        self.log: list[str] = []

    def start(self, task: Task, tag: str = "t") -> Any:
        return self.scheduler.start(task, self.ended.append, tag)

    def settle(self) -> None:
        """Run what can run now, without waiting."""
        while self.scheduler.step(0):
            pass

    def until_ended(self, count: int = 1) -> None:
        step_until(self.scheduler, lambda: len(self.ended) >= count)

    def closed(self, index: int = 0) -> bool:
        return isinstance(self.ended[index].error, TaskClosed)


@pytest.fixture
def h() -> Harness:
    return Harness()


def test_a_call_runs_in_a_named_pool_thread_and_its_value_comes_back(h: Harness) -> None:
    def task() -> Task:
        name = yield Perform("io", lambda: threading.current_thread().name)
        return name, threading.current_thread() is threading.main_thread()

    h.start(task())
    h.until_ended()
    name, on_main = h.ended[0].value
    assert name.startswith("pool-io-")
    assert on_main


def test_what_a_call_raises_is_raised_at_the_yield(h: Harness) -> None:
    def fail() -> None:
        raise OSError("disk")

    def task() -> Task:
        try:
            yield Perform("io", fail)
        except OSError as error:
            return f"saw {error}"

    h.start(task())
    h.until_ended()
    assert h.ended[0].value == "saw disk"


def test_a_call_that_tries_to_end_the_process_only_fails_its_task(h: Harness) -> None:
    def leave() -> None:
        raise SystemExit(3)

    def task() -> Task:
        yield Perform("io", leave)

    h.start(task())
    h.until_ended()
    assert isinstance(h.ended[0].error, SystemExit)


def test_an_unknown_pool_is_an_error_of_the_task_that_names_the_pools(h: Harness) -> None:
    def task() -> Task:
        yield Perform("nowhere", lambda: None)

    h.start(task())
    h.settle()
    assert "'nowhere'" in str(h.ended[0].error)
    assert "io" in str(h.ended[0].error)


def test_something_that_is_no_effect_is_an_error_of_the_task(h: Harness) -> None:
    def task() -> Generator[Any, Any, Any]:
        yield "not an effect"

    h.start(task())
    h.settle()
    assert isinstance(h.ended[0].error, AssertionError)


def test_a_sleep_ends_when_its_time_has_come_and_not_before(h: Harness) -> None:
    def task() -> Task:
        yield Sleep(5)
        h.log.append("awake")

    h.start(task())
    h.settle()
    assert h.scheduler.waiting_for_time == 1
    h.clock.advance(4.9)
    h.settle()
    assert h.log == []
    h.clock.advance(0.2)
    h.settle()
    assert h.log == ["awake"]
    assert h.scheduler.waiting_for_time == 0


def test_sleepers_wake_in_the_order_of_their_times(h: Harness) -> None:
    def task(seconds: float) -> Task:
        yield Sleep(seconds)
        h.log.append(str(seconds))

    for seconds in (3, 1, 2):
        h.start(task(seconds))
    h.settle()
    h.clock.advance(10)
    h.settle()
    assert h.log == ["1", "2", "3"]


def test_a_safe_point_costs_nothing_in_normal_running(h: Harness) -> None:
    def task() -> Task:
        got = yield SafePoint()
        return got

    h.start(task())
    h.settle()
    assert h.ended == [Outcome(value=None)]


def test_a_publish_resumes_when_the_broker_has_acknowledged(h: Harness) -> None:
    def task() -> Task:
        yield Publish(MESSAGE)
        return "acknowledged"

    h.start(task())
    h.settle()
    assert h.deliveries.sent == [MESSAGE]
    assert h.ended == []
    h.deliveries.deliver()
    h.settle()
    assert h.ended == [Outcome(value="acknowledged")]


def test_a_refused_publish_raises_and_may_be_tried_again(h: Harness) -> None:
    def task() -> Task:
        try:
            yield Publish(MESSAGE)
        except PublishRefused as refused:
            h.log.append(refused.code)
        yield Publish(MESSAGE)

    h.start(task())
    h.settle()
    h.deliveries.deliver(PublishRefused("MSG_SIZE_TOO_LARGE", too_large=True))
    h.settle()
    h.deliveries.deliver()
    h.settle()
    assert h.log == ["MSG_SIZE_TOO_LARGE"]
    assert h.ended == [Outcome(value=None)]


def test_children_run_at_the_same_time_and_report_in_their_order(h: Harness) -> None:
    first, second = Gate("a"), Gate("b")

    def child(gate: Gate) -> Task:
        return (yield Perform("io", gate))

    def failing() -> Task:
        yield Sleep(0)
        raise LookupError("gone")

    def task() -> Task:
        return (yield Together([child(first), child(second), failing()]))

    h.start(task())
    step_until(h.scheduler, lambda: first.started and second.started)
    second.open()
    first.open()
    h.until_ended()
    outcomes = h.ended[0].value
    assert [o.value for o in outcomes[:2]] == ["a", "b"]
    assert isinstance(outcomes[2].error, LookupError)


def test_no_children_give_no_outcomes(h: Harness) -> None:
    def task() -> Task:
        return (yield Together([]))

    h.start(task())
    h.settle()
    assert h.ended == [Outcome(value=[])]


def test_a_permit_is_granted_when_the_holder_releases(h: Harness) -> None:
    limiter = Limiter(1)

    def task(name: str) -> Task:
        permit = yield Acquire(limiter, name)
        try:
            h.log.append(f"{name} in")
            yield Sleep(1)
        finally:
            permit.release()
            h.log.append(f"{name} out")

    h.start(task("a"))
    h.start(task("b"))
    h.settle()
    assert h.log == ["a in"]
    h.clock.advance(2)
    h.settle()
    assert h.log == ["a in", "a out", "b in"]


def test_an_error_of_a_task_is_told_to_its_owner_alone(h: Harness) -> None:
    def bad() -> Task:
        yield SafePoint()
        raise ZeroDivisionError

    def good() -> Task:
        yield Sleep(0)
        return "fine"

    h.start(bad())
    h.start(good())
    h.settle()
    assert isinstance(h.ended[0].error, ZeroDivisionError)
    assert h.ended[1].value == "fine"


def test_what_on_end_raises_comes_out_of_the_step(h: Harness) -> None:
    def task() -> Task:
        yield SafePoint()

    def on_end(outcome: Outcome) -> None:
        raise ValueError("a bug in the owner")

    h.scheduler.start(task(), on_end, "t")
    with pytest.raises(ValueError, match="a bug in the owner"):
        h.scheduler.step(0)


def test_stepping_from_inside_a_task_is_refused(h: Harness) -> None:
    def task() -> Task:
        h.scheduler.step(0)
        yield SafePoint()

    h.start(task())
    h.settle()
    assert isinstance(h.ended[0].error, RuntimeError)


# -- cancel ---------------------------------------------------------------------------------------


def test_cancelling_a_sleeper_runs_its_finally_and_says_closed(h: Harness) -> None:
    def task() -> Task:
        try:
            yield Sleep(100)
        finally:
            h.log.append("cleaned")

    h.start(task())
    h.settle()
    h.scheduler.cancel("t")
    assert h.log == ["cleaned"]
    assert h.closed()
    assert h.scheduler.running == 0


def test_cancel_ends_only_its_own_tag(h: Harness) -> None:
    def task() -> Task:
        yield Sleep(1)
        return "done"

    h.start(task(), "revoked")
    h.start(task(), "kept")
    h.settle()
    h.scheduler.cancel("revoked")
    h.clock.advance(2)
    h.settle()
    assert h.closed(0)
    assert h.ended[1].value == "done"


def test_a_task_is_not_closed_under_its_running_call(h: Harness) -> None:
    gate = Gate("result")

    def task() -> Task:
        try:
            yield Perform("io", gate)
            h.log.append("saw the result")
        finally:
            h.log.append("deleted its file")

    h.start(task())
    step_until(h.scheduler, lambda: gate.started)
    h.scheduler.cancel("t")
    h.settle()
    assert h.log == []
    gate.open()
    h.until_ended()
    assert h.log == ["deleted its file"]
    assert h.closed()


def test_a_cancelled_call_that_is_still_queued_never_runs() -> None:
    h = Harness(threads=1)
    blocker = Gate()

    def blocking() -> Task:
        yield Perform("io", blocker)

    def queued() -> Task:
        yield Perform("io", lambda: h.log.append("ran"))

    h.start(blocking(), "kept")
    h.start(queued(), "gone")
    step_until(h.scheduler, lambda: blocker.started)
    h.scheduler.cancel("gone")
    blocker.open()
    h.until_ended(2)
    assert h.log == []


def test_a_permit_granted_but_not_yet_received_is_not_lost_by_a_cancel(h: Harness) -> None:
    limiter = Limiter(1)

    def task() -> Task:
        permit = yield Acquire(limiter, "b")
        try:
            yield Sleep(100)
        finally:
            permit.release()

    held: list[Any] = []
    limiter.request("a", held.append)
    h.start(task())
    h.settle()
    held[0].release()  # granted: the task is ready, but has not run
    h.scheduler.cancel("t")
    assert h.closed()
    assert limiter.in_use == 0


def test_a_cancelled_waiter_takes_no_place(h: Harness) -> None:
    limiter = Limiter(1)
    held: list[Any] = []
    limiter.request("a", held.append)

    def task() -> Task:
        yield Acquire(limiter, "b")

    h.start(task())
    h.settle()
    h.scheduler.cancel("t")
    assert limiter.waiting == 0
    held[0].release()
    assert limiter.in_use == 0


def test_a_late_delivery_report_of_a_cancelled_task_is_ignored(h: Harness) -> None:
    def task() -> Task:
        yield Publish(MESSAGE)
        h.log.append("went on")

    h.start(task())
    h.settle()
    h.scheduler.cancel("t")
    h.deliveries.deliver()
    h.settle()
    assert h.log == []
    assert len(h.ended) == 1


def test_a_parent_is_closed_after_its_children(h: Harness) -> None:
    gate = Gate()

    def sleeping() -> Task:
        try:
            yield Sleep(100)
        finally:
            h.log.append("sleeper closed")

    def calling() -> Task:
        try:
            yield Perform("io", gate)
        finally:
            h.log.append("caller closed")

    def task() -> Task:
        try:
            yield Together([sleeping(), calling()])
        finally:
            h.log.append("parent closed")

    h.start(task())
    step_until(h.scheduler, lambda: gate.started)
    h.scheduler.cancel("t")
    assert h.log == ["sleeper closed"]
    gate.open()
    h.until_ended()
    assert h.log == ["sleeper closed", "caller closed", "parent closed"]
    assert h.closed()


def test_a_task_that_never_ran_can_be_cancelled(h: Harness) -> None:
    def task() -> Task:
        h.log.append("ran")
        yield Sleep(1)

    handle = h.start(task())
    handle.cancel()
    h.settle()
    assert h.log == []
    assert handle.ended
    assert h.closed()


def test_what_a_finally_raises_on_close_is_the_tasks_error(h: Harness) -> None:
    def task() -> Task:
        try:
            yield Sleep(100)
        finally:
            raise PermissionError("cannot delete")

    h.start(task())
    h.settle()
    h.scheduler.cancel("t")
    assert isinstance(h.ended[0].error, PermissionError)


def test_a_task_may_cancel_its_own_tag(h: Harness) -> None:
    def task() -> Task:
        h.scheduler.cancel("t")
        yield Sleep(1)
        h.log.append("went on")

    h.start(task())
    h.settle()
    assert h.closed()
    assert h.log == []


# -- drain ----------------------------------------------------------------------------------------


def drain(h: Harness, *tags: str, seconds: float = 30.0) -> set[Any]:
    """Drain while the test's clock follows real steps, so that a deadline can pass."""

    def tick() -> None:
        h.clock.advance(0.01)

    return h.scheduler.drain(tags, h.clock.monotonic() + seconds, tick)


def test_draining_closes_sleepers_and_waiters_at_once(h: Harness) -> None:
    limiter = Limiter(1)
    limiter.request("other", lambda permit: None)

    def sleeper() -> Task:
        yield Sleep(100)

    def waiter() -> Task:
        yield Acquire(limiter, "b")

    h.start(sleeper())
    h.start(waiter())
    h.settle()
    assert drain(h, "t") == set()
    assert h.closed(0)
    assert h.closed(1)


@pytest.mark.parametrize("place", [Sleep(1), SafePoint(), Acquire(Limiter(1), "b")])
def test_a_draining_task_records_its_call_and_ends_at_the_next_safe_place(
    h: Harness, place: Effect
) -> None:
    gate = Gate("job id")

    def task() -> Task:
        job = yield Perform("io", gate)
        yield Perform("io", lambda: h.log.append(f"recorded {job}"))
        yield Publish(MESSAGE)
        yield place
        h.log.append("went on")

    h.start(task())
    step_until(h.scheduler, lambda: gate.started)
    gate.open()

    def tick() -> None:
        h.clock.advance(0.001)
        if h.deliveries.waiting:
            h.deliveries.deliver()

    assert h.scheduler.drain(["t"], h.clock.monotonic() + 30, tick) == set()
    assert h.log == ["recorded job id"]
    assert h.closed()


def test_a_place_taken_through_a_drain_is_still_waited_for(h: Harness) -> None:
    limiter = Limiter(1)
    held: list[Any] = []
    limiter.request("other", held.append)

    def task() -> Task:
        permit = yield Acquire(limiter, "b", through_drain=True)
        h.log.append("recorded the job id")
        permit.release()
        yield SafePoint()
        h.log.append("went on")

    h.start(task())
    h.settle()
    assert drain(h, "t", seconds=0.05) == {"t"}
    held[0].release()
    assert drain(h, "t") == set()
    assert h.log == ["recorded the job id"]
    assert limiter.in_use == 0


def test_a_draining_task_that_reaches_its_end_has_ended_normally(h: Harness) -> None:
    gate = Gate("value")

    def task() -> Task:
        return (yield Perform("io", gate))

    h.start(task())
    step_until(h.scheduler, lambda: gate.started)
    gate.open()
    assert drain(h, "t") == set()
    assert h.ended == [Outcome(value="value")]


def test_draining_stops_at_the_deadline_and_says_what_is_left(h: Harness) -> None:
    gate = Gate()

    def task() -> Task:
        yield Perform("io", gate)

    h.start(task())
    step_until(h.scheduler, lambda: gate.started)
    assert drain(h, "t", "unknown", seconds=0.05) == {"t"}
    assert h.ended == []
    h.scheduler.cancel("t")
    gate.open()
    h.until_ended()


def test_other_tasks_go_on_while_some_are_drained(h: Harness) -> None:
    gate = Gate()

    def draining() -> Task:
        yield Perform("io", gate)

    def other() -> Task:
        yield Sleep(0.02)
        h.log.append("other went on")
        gate.open()

    h.start(draining(), "revoked")
    h.start(other(), "kept")
    step_until(h.scheduler, lambda: gate.started)
    assert drain(h, "revoked") == set()
    assert h.log == ["other went on"]


def test_a_parent_whose_child_was_drained_is_closed_and_never_sees_half_of_the_outcomes(
    h: Harness,
) -> None:
    gate = Gate()

    def sleeping() -> Task:
        yield Sleep(100)

    def calling() -> Task:
        yield Perform("io", gate)

    def task() -> Task:
        outcomes = yield Together([sleeping(), calling()])
        h.log.append(f"saw {len(outcomes)}")

    h.start(task())
    step_until(h.scheduler, lambda: gate.started)
    gate.open()
    assert drain(h, "t") == set()
    assert h.log == []
    assert h.closed()


def test_a_parent_whose_children_all_ended_runs_on_to_its_own_safe_place(h: Harness) -> None:
    gate = Gate()

    def calling() -> Task:
        yield Perform("io", gate)

    def task() -> Task:
        yield Together([calling(), calling()])
        h.log.append("recorded both")
        yield SafePoint()
        h.log.append("went on")

    h.start(task())
    step_until(h.scheduler, lambda: gate.started)
    gate.open()
    assert drain(h, "t") == set()
    assert h.log == ["recorded both"]


def test_a_wake_from_another_thread_ends_the_wait() -> None:
    scheduler = Scheduler({})
    threading.Timer(0.05, scheduler.wake).start()
    assert scheduler.step(60) is False


def test_pool_numbers_show_what_waits_and_what_runs() -> None:
    h = Harness(threads=1)
    gate = Gate()

    def task() -> Task:
        yield Perform("io", gate)

    for _ in range(3):
        h.start(task())
    step_until(h.scheduler, lambda: gate.started)
    h.clock.advance(7)
    stats = h.scheduler.pool_stats()["io"]
    assert (stats.threads, stats.queued, stats.in_progress) == (1, 2, 1)
    assert stats.oldest_in_progress_seconds == 7
    gate.open()
    h.until_ended(3)
    stats = h.scheduler.pool_stats()["io"]
    assert (stats.queued, stats.completed) == (0, 3)
    assert stats.wait_seconds_total == 14


def test_steps_that_find_nothing_begin_no_quicker_than_their_interval() -> None:
    scheduler = Scheduler({}, step_interval=STEP_INTERVAL)
    started = scheduler.clock.monotonic()
    for _ in range(5):
        scheduler.step(0)
    assert scheduler.clock.monotonic() - started >= 4 * STEP_INTERVAL
    assert scheduler.waited >= 3 * STEP_INTERVAL  # counted as waiting, not as work


def test_a_task_that_can_run_is_not_held_up() -> None:
    scheduler = Scheduler({}, step_interval=STEP_INTERVAL)
    ended: list[Outcome] = []

    def nothing() -> Task:
        return
        yield

    scheduler.step(0)
    scheduler.start(nothing(), ended.append, "t")
    before = scheduler.waited
    assert scheduler.step(0)
    assert len(ended) == 1
    assert scheduler.waited == before


def test_ended_tasks_leave_nothing_to_the_cycle_collector(h: Harness) -> None:
    """A worker's collector rests for thousands of documents, and what it would free stays until
    then."""

    def child() -> Task:
        return (yield Perform("io", lambda: "done"))

    def parent() -> Task:
        yield Sleep(0.0)
        return (yield Together([child(), child()]))

    count = 50
    gc.collect()
    gc.disable()
    try:
        for _ in range(count):
            holder: list[Any] = []
            holder.append(h.scheduler.start(parent(), partial(_ended, h, holder), "t"))
            del holder
        h.clock.advance(1.0)
        h.until_ended(count)
        assert gc.collect() < count
    finally:
        gc.enable()


def _ended(h: Harness, _holder: list[Any], outcome: Outcome) -> None:
    h.ended.append(outcome)
