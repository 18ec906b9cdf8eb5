"""Calls take turns between bundles, and no end of a task keeps a place in a pool."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from consumers.extraction.services import Services
from consumers.extraction.turns import in_turn
from consumers.runtime.clock import SystemClock
from consumers.runtime.effects import Outcome, Sleep, Task
from consumers.runtime.limiter import Limiter
from consumers.runtime.pools import PoolSettings
from consumers.runtime.scheduler import Handle, Scheduler, TaskClosed
from tests.unit.consumers.runtime.fakes import Gate, step_until


class Rig:
    """One thread, and places for the call that runs and no other."""

    def __init__(self) -> None:
        self.places = Limiter(1)
        self.services = cast(Services, SimpleNamespace(call_places={"io": self.places}))
        self.scheduler = Scheduler({"io": PoolSettings(1)})
        self.ended: list[Outcome] = []
        self.called: list[str] = []

    def start(self, bundle: str, call: Any = None) -> Handle:
        def task() -> Task:
            yield from in_turn(
                self.services, bundle, "io", call or (lambda: self.called.append(bundle))
            )
            yield Sleep(0)

        return self.scheduler.start(task(), self.ended.append, bundle)

    def blocked(self) -> Gate:
        """A call that has the place until the gate is opened."""
        gate = Gate("value")
        self.start("blocks", gate)
        step_until(self.scheduler, lambda: gate.started)
        return gate

    def settle(self) -> None:
        while self.scheduler.step(0):
            pass

    def until_ended(self, count: int) -> None:
        step_until(self.scheduler, lambda: len(self.ended) == count)


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_a_bundle_with_few_calls_does_not_wait_for_all_of_one_with_many(rig: Rig) -> None:
    gate = rig.blocked()
    for _ in range(100):
        rig.start("many")
    rig.start("few")
    rig.settle()
    assert rig.places.waiting == 101
    gate.open()
    rig.until_ended(102)
    assert rig.called.index("few") <= 2


def test_a_call_that_raises_gives_its_place_back(rig: Rig) -> None:
    rig.start("fails", lambda: 1 / 0)
    rig.start("next")
    rig.until_ended(2)
    assert isinstance(rig.ended[0].error, ZeroDivisionError)
    assert rig.called == ["next"]
    assert rig.places.in_use == 0


def test_a_task_that_is_cancelled_while_it_waits_for_its_turn_takes_no_place(rig: Rig) -> None:
    gate = rig.blocked()
    waits = rig.start("waits")
    rig.settle()
    waits.cancel()
    gate.open()
    rig.until_ended(2)
    assert rig.called == []
    assert (rig.places.in_use, rig.places.waiting) == (0, 0)


def test_a_place_is_kept_until_the_call_of_a_cancelled_task_has_returned(rig: Rig) -> None:
    gate = rig.blocked()
    rig.scheduler.cancel("blocks")
    rig.settle()
    assert rig.places.in_use == 1
    gate.open()
    rig.until_ended(1)
    assert isinstance(rig.ended[0].error, TaskClosed)
    assert rig.places.in_use == 0


def test_a_drain_waits_for_the_turn_of_what_was_paid_for(rig: Rig) -> None:
    gate = rig.blocked()
    rig.start("paid")
    rig.settle()
    left = rig.scheduler.drain(["paid"], SystemClock().monotonic() + 60, gate.open)
    assert left == set()
    assert rig.called == ["paid"]
    assert isinstance(rig.ended[-1].error, TaskClosed)
    rig.until_ended(2)
    assert rig.places.in_use == 0
