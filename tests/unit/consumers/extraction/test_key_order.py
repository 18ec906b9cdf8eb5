"""Events of one key, where a policy wants them in order."""

from __future__ import annotations

import gc

from consumers.extraction.key_order import KeyOrder
from consumers.runtime.effects import Acquire, Sleep, Task
from consumers.runtime.scheduler import Scheduler


def _event(order: KeyOrder, key: bytes, name: str, seconds: float, log: list[str]) -> Task:
    permit = yield Acquire(order.limiter(key), "in order")
    try:
        log.append(f"{name} begins")
        yield Sleep(seconds)
        log.append(f"{name} ends")
    finally:
        permit.release()


def _run(*tasks: Task) -> None:
    scheduler = Scheduler({})
    for number, task in enumerate(tasks):
        scheduler.start(task, lambda _: None, number)
    while scheduler.running:
        scheduler.step(0.05)


def test_events_of_one_key_run_one_after_the_other_in_their_order() -> None:
    order, log = KeyOrder(), list[str]()
    _run(*(_event(order, b"k", name, 0.02 - i / 200, log) for i, name in enumerate("abcd")))
    assert log == [f"{name} {what}" for name in "abcd" for what in ("begins", "ends")]


def test_events_of_other_keys_do_not_wait() -> None:
    order, log = KeyOrder(), list[str]()
    _run(_event(order, b"slow", "a", 0.2, log), _event(order, b"quick", "b", 0.0, log))
    assert log.index("b ends") < log.index("a ends")


def test_a_key_that_nobody_waits_for_is_forgotten() -> None:
    order, log = KeyOrder(), list[str]()
    _run(*(_event(order, str(i).encode(), "a", 0.0, log) for i in range(50)))
    gc.collect()
    assert len(order._limiters) == 0
