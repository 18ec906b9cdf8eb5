"""An open breaker stops the intake only while somebody will find out that it may close again."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from consumers.extraction.calls import call
from consumers.extraction.services import Dependency, held_up
from consumers.extraction.timeline import Timeline
from consumers.metrics import Metrics
from consumers.providers.errors import NotAuthorized
from consumers.runtime.clock import SystemClock
from consumers.runtime.effects import Acquire, Perform, Sleep
from consumers.runtime.limiter import Limiter, Permit
from schemas.policy import Retries


def asking(dependency: Dependency) -> Any:
    """A call of ``dependency``, driven by hand."""
    clock = SystemClock()
    services: Any = SimpleNamespace(
        clock=clock,
        rng=random.Random(1),
        metrics=Metrics(),
        call_places={dependency.pool: Limiter(1)},
    )
    scope: Any = SimpleNamespace(
        bundle_id="bundle", timeline=Timeline(clock, waited_s=0), note=lambda *_, **__: None
    )
    return call(services, scope, dependency, "poll", lambda: None, retries=Retries())


def asked(task: Any) -> None:
    """Has it make its call, when it is its turn."""
    place = next(task)
    assert isinstance(place, Acquire)
    granted: list[Permit] = []
    place.limiter.request(place.share, granted.append)
    assert isinstance(task.send(granted[0]), Perform)


def rejected(dependency: Dependency) -> Any:
    """A call that was refused for good reasons: it opened the breaker, and waits to ask again."""
    task = asking(dependency)
    asked(task)
    assert isinstance(task.throw(NotAuthorized("http_401")), Sleep)
    assert dependency.breaker.is_open
    return task


def test_while_a_document_waits_for_what_is_down_no_more_are_taken_in() -> None:
    dependency = Dependency("service", "provider")
    waiting = rejected(dependency)
    assert held_up([dependency])
    waiting.close()


def test_when_nobody_is_left_to_ask_again_events_come_in_though_others_are_running() -> None:
    dependency, other = Dependency("service", "provider"), Dependency("store", "store")
    running = asking(other)
    asked(running)
    rejected(dependency).close()
    assert dependency.breaker.is_open
    assert not held_up([dependency, other])
    running.close()


def test_a_call_that_is_answered_is_none_any_more() -> None:
    dependency = Dependency("service", "provider")
    task = asking(dependency)
    asked(task)
    assert dependency.callers == 1
    with pytest.raises(StopIteration):
        task.send("answer")
    assert dependency.callers == 0
