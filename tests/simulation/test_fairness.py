"""A huge bundle in front: what it costs the small ones behind it, wherever a queue forms.

Each case is run with the small bundles alone and behind the huge one. That the cases can fail is
shown as well: with a queue that does not look at whose turn it is, the small ones wait for all.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import pytest

from consumers.extraction.services import Services
from consumers.providers.protocol import JobState, JobStatus
from consumers.runtime.effects import Message
from consumers.runtime.limiter import Limiter
from schemas.policy import Polling
from tests.simulation.documents import Trait, make_pdf
from tests.simulation.scenario import (
    DocumentPlan,
    EventPlan,
    Move,
    MoveKind,
    Scenario,
    SegmentPlan,
    SourcePlan,
    plain_policy,
)
from tests.simulation.service import PROVIDER, ServiceKind
from tests.simulation.worker import SimWorker
from tests.simulation.world import Simulator, World

HUGE = 200
"""Documents of the bundle in front."""
SMALL = 12
MOST = 2.5
"""The slowest small bundle behind the huge one takes at most so many times what it takes alone."""
PLENTY = 2 * HUGE

Queues = Callable[[Services], Iterable[Limiter]]
QUEUES: dict[str, tuple[Mapping[str, int], Queues]] = {
    "job slots": (
        {"job_slots": 4, "local_documents": PLENTY},
        lambda services: [services.providers[PROVIDER].slots],
    ),
    "document places": (
        {"job_slots": PLENTY, "local_documents": 4},
        lambda services: [services.documents],
    ),
}


def bundle(at: float, name: str, documents: int, pages: int = 1) -> EventPlan:
    rng = random.Random(name)
    plans = []
    for number in range(documents):
        of_it = f"{name}-{number}"
        source = SourcePlan(f"uploads/{of_it}.pdf", make_pdf(of_it, pages, Trait.FINE, rng))
        plans.append(DocumentPlan(of_it, (SegmentPlan(source),)))
    return EventPlan(at, 0, name, tuple(plans))


def small_bundles(first_at: float, apart: float) -> list[EventPlan]:
    return [bundle(first_at + n * apart, f"small-{n}", 1) for n in range(SMALL)]


def end_to_end(
    simulator: Simulator,
    events: Sequence[EventPlan],
    settings: Mapping[str, int],
    before: Callable[[World], None] = lambda world: None,
    moves: tuple[Move, ...] = (),
) -> dict[str, list[float]]:
    """Seconds of each document, by its bundle."""
    seconds: dict[str, list[float]] = {}

    def listen(message: Message) -> None:
        line = json.loads(message.value or b"")
        if line["event"] == "ended":
            assert line["code"] == "extracted"
            seconds.setdefault(line["bundle_id"], []).append(line["seconds"])

    def prepare(world: World) -> None:
        world.broker.max_output_bytes = 1 << 20  # the result of a huge bundle
        before(world)

    simulator.run(
        Scenario(
            seed=1,
            events=tuple(events),
            policy=plain_policy(
                polling=Polling(first_delay_s=1.0, multiplier=1.0, ceiling_s=1.0, deadline_s=3600.0)
            ),
            faults_until=0.0,
            service=ServiceKind(run_seconds=(4.0, 6.0), url_seconds=3600.0),
            workers=2 if moves else 1,
            moves=moves,
            **settings,  # type: ignore[arg-type]
        ),
        on_journal=listen,
        prepare=prepare,
    )
    return seconds


def slowest_small(seconds: dict[str, list[float]]) -> float:
    small = [one for name, (one, *_) in seconds.items() if name.startswith("small")]
    assert len(small) == SMALL
    return max(small)


def behind_and_alone(simulator: Simulator, settings: Mapping[str, int]) -> float:
    """What the slowest small bundle takes behind the huge one, in times of what it takes alone."""
    small = small_bundles(first_at=1.0, apart=3.0)
    alone = slowest_small(end_to_end(simulator, small, settings))
    seconds = end_to_end(simulator, [bundle(0.0, "huge", HUGE), *small], settings)
    assert len(seconds["huge"]) == HUGE
    return slowest_small(seconds) / alone


def without_shares(monkeypatch: pytest.MonkeyPatch, queues: Queues) -> None:
    """They serve whoever came first."""
    original = SimWorker._services

    def made(worker: SimWorker) -> Services:
        services = original(worker)
        for limiter in queues(services):
            limiter.request = partial(  # type: ignore[method-assign]
                lambda request, share, on_grant: request("all", on_grant), limiter.request
            )
        return services

    monkeypatch.setattr(SimWorker, "_services", made)


@pytest.mark.parametrize("scarce", QUEUES)
def test_small_bundles_do_not_wait_for_a_huge_one(simulator: Simulator, scarce: str) -> None:
    settings, _ = QUEUES[scarce]
    assert behind_and_alone(simulator, settings) < MOST


@pytest.mark.parametrize("scarce", QUEUES)
def test_a_queue_that_does_not_know_whose_turn_it_is_is_noticed(
    simulator: Simulator, monkeypatch: pytest.MonkeyPatch, scarce: str
) -> None:
    settings, queues = QUEUES[scarce]
    without_shares(monkeypatch, queues)
    assert behind_and_alone(simulator, settings) > 2 * MOST


# -- calls -----------------------------------------------------------------------------------------

FEW_THREADS = {"job_slots": PLENTY, "local_documents": PLENTY, "pool_threads": 4}
ALL_END_AT = 200.0
"""By then all documents of the huge bundle run at the service."""


def huge_ends_at_once(world: World) -> None:
    """The service finishes the huge bundle's jobs at one moment, and has them asked for then."""
    poll = world.service.poll

    def told(job_id: str) -> JobStatus:
        job, left = world.service.jobs[job_id], ALL_END_AT - world.agenda.now
        if job.document.name.startswith("huge") and left > 0:
            return JobStatus(JobState.RUNNING, "running", retry_after=left)
        return poll(job_id)

    world.service.poll = told  # type: ignore[method-assign]


def behind_and_alone_when_all_end_at_once(simulator: Simulator) -> float:
    small = small_bundles(first_at=ALL_END_AT + 1.0, apart=3.0)
    alone = slowest_small(end_to_end(simulator, small, FEW_THREADS))
    events = [bundle(0.0, "huge", HUGE, pages=3), *small]
    seconds = end_to_end(simulator, events, FEW_THREADS, huge_ends_at_once)
    assert len(seconds["huge"]) == HUGE
    assert min(seconds["huge"]) > ALL_END_AT
    return slowest_small(seconds) / alone


def test_small_bundles_do_not_wait_until_a_huge_one_that_ended_at_once_is_stored(
    simulator: Simulator,
) -> None:
    assert behind_and_alone_when_all_end_at_once(simulator) < MOST


def test_calls_that_do_not_take_turns_are_noticed(
    simulator: Simulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_shares(monkeypatch, lambda services: services.call_places.values())
    assert behind_and_alone_when_all_end_at_once(simulator) > 2 * MOST


@pytest.mark.parametrize("kind", ["revoke", "lost", "bounce"])
def test_a_partition_moves_while_hundreds_of_calls_wait_for_their_turn(
    simulator: Simulator, kind: MoveKind
) -> None:
    seconds = end_to_end(
        simulator,
        [bundle(0.0, "huge", HUGE, pages=3)],
        FEW_THREADS,
        huge_ends_at_once,
        moves=(Move(ALL_END_AT + 20.0, 0, kind),),
    )
    assert len(seconds["huge"]) >= HUGE  # and no place is left taken, or the judge would say so
