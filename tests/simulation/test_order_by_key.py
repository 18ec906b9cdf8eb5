"""Events of one key, where their policy wants them in order and where it does not."""

from __future__ import annotations

import random
from collections.abc import Generator
from typing import Any

import pytest

from consumers.extraction.bundle import process_event
from consumers.extraction.origin import Origin
from consumers.extraction.services import Services
from consumers.runtime.effects import Perform, Task
from tests.simulation import worker
from tests.simulation.scenario import EventPlan, Scenario, make_document, plain_policy
from tests.simulation.service import ServiceKind
from tests.simulation.world import Simulator


def told(task: Task, offset: int, log: list[tuple[int, str]]) -> Generator[Any, Any, None]:
    """``task``, with its calls and its end in the log."""
    try:
        effect = next(task)
        while True:
            if isinstance(effect, Perform):
                log.append((offset, "calls"))
            try:
                answer = yield effect
            except BaseException as error:
                effect = task.throw(error)
            else:
                effect = task.send(answer)
    except StopIteration:
        log.append((offset, "ends"))


@pytest.mark.parametrize("ordered", [True, False])
def test_an_event_waits_for_the_one_before_it_of_its_key_only_where_the_policy_says_so(
    simulator: Simulator, monkeypatch: pytest.MonkeyPatch, ordered: bool
) -> None:
    log: list[tuple[int, str]] = []

    def watched(services: Services, origin: Origin) -> Task:
        return told(process_event(services, origin), origin.offset, log)

    monkeypatch.setattr(worker, "process_event", watched)
    rng = random.Random(1)
    events = tuple(
        EventPlan(at, 0, bundle, (make_document(rng, name),))
        for at, bundle, name in ((0.0, "key", "a"), (1.0, "key", "b"), (2.0, "other", "c"))
    )
    world = simulator.run(
        Scenario(
            seed=1,
            events=events,
            policy=plain_policy(ordered_by_key=ordered),
            faults_until=0.0,
            service=ServiceKind(run_seconds=(10.0, 20.0)),
        )
    )
    assert {("key", "a"), ("key", "b"), ("other", "c")} <= set(world.judge.results)
    first_ends = log.index((0, "ends"))
    assert (log.index((1, "calls")) > first_ends) is ordered
    assert log.index((2, "calls")) < first_ends
