"""What leaves the worker besides results: ledger lines, dead-letter headers, metrics.

Every ledger line keeps to its contract, and strings planted where secrets and names of people stand
in real life turn up in none of it.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from prometheus_client import generate_latest

from consumers.providers import errors
from consumers.runtime.effects import Message
from schemas.ledger import LedgerRecord
from schemas.topics import DLQ_PREFIX, TRACEPARENT
from tests.simulation.documents import Trait
from tests.simulation.scenario import (
    DocumentPlan,
    EventPlan,
    Scenario,
    SegmentPlan,
    SourcePlan,
    from_seed,
    make_document,
    plain_policy,
)
from tests.simulation.world import Simulator, World

CANARY = "Mustermann-1951-03-07"
TOKEN = "sk-canary-8f3a91c2"


def test_every_ledger_line_keeps_to_its_contract(simulator: Simulator) -> None:
    events = set()

    def check(message: Message) -> None:
        record = LedgerRecord.model_validate_json(message.value or b"")
        events.add(record.event)
        if record.event == "validated":
            assert record.libmagic_type == "application/pdf"
            assert (record.libmagic_version, record.header_offset) == (545, 0)

    for seed in range(60):
        simulator.run(from_seed(seed), on_journal=check)
    # Lines of every part of the life-cycle were among them.
    assert {
        "accepted",
        "validated",
        "submitted",
        "finished",
        "manifest_written",
        "dead_lettered",
    } <= events
    assert {"attempt_failed", "another_job", "throttled", "rejected", "resumed"} <= events


def _named_after_a_patient(name: str, trait: Trait, rng: random.Random) -> DocumentPlan:
    document = make_document(rng, name, trait, checksums=True)
    segments = tuple(
        SegmentPlan(SourcePlan(f"{CANARY}/{s.source.key}", s.source.body), s.pages)
        for s in document.segments
    )
    return replace(document, segments=segments)


class _Unexpected(RuntimeError):
    """What a library might raise, with content in its text."""


@pytest.mark.parametrize("trait", list(Trait), ids=str)
def test_nothing_planted_leaves_the_worker(simulator: Simulator, trait: Trait) -> None:
    lines: list[bytes] = []

    def prepare(world: World) -> None:
        poll, calls = world.service.poll, iter(range(10**6))

        def leaking_poll(job_id: str) -> object:
            if next(calls) == 0:
                raise errors.CallFailed("http_500", status=500, operation="poll") from _Unexpected(
                    f"{TOKEN} {CANARY}"
                )
            return poll(job_id)

        world.service.poll = leaking_poll  # type: ignore[method-assign, assignment]

    rng = random.Random(trait)
    events = tuple(
        EventPlan(float(n), 0, f"bundle-{n}", (_named_after_a_patient(f"document-{n}", t, rng),))
        for n, t in enumerate((trait, Trait.FINE))
    )
    world = simulator.run(
        Scenario(seed=5, events=events, policy=plain_policy(), faults_until=0.0),
        on_journal=lambda message: lines.append(message.value or b""),
        prepare=prepare,
    )
    _assert_clean(b"\n".join(lines))
    for output in world.broker.outputs:
        if output.header("x-dlq-reason"):
            # The value is the original; the headers that we add are ours.
            headers = [f"{n}={v!r}" for n, v in output.message.headers if n.startswith(DLQ_PREFIX)]
            _assert_clean("\n".join(headers).encode())
        else:
            _assert_clean(output.message.value or b"")
            _assert_clean(repr(output.message.headers).encode())
    _assert_clean(generate_latest(simulator.metrics.registry))


def test_an_unexpected_error_tells_its_type_and_not_its_text(
    simulator: Simulator, caplog: pytest.LogCaptureFixture
) -> None:
    lines: list[bytes] = []

    def prepare(world: World) -> None:
        def broken(job_id: str) -> object:
            raise _Unexpected(f"{TOKEN} {CANARY}")

        world.service.poll = broken  # type: ignore[method-assign, assignment]
        world.judge._explained = lambda *_: True  # type: ignore[method-assign]

    rng = random.Random(1)
    event = EventPlan(0.0, 0, "bundle", (_named_after_a_patient("document", Trait.FINE, rng),))
    world = simulator.run(
        Scenario(seed=5, events=(event,), policy=plain_policy(), faults_until=0.0),
        on_journal=lambda message: lines.append(message.value or b""),
        prepare=prepare,
    )
    assert set(world.judge.dead_letters.values()) == {"internal_error"}
    headers = "\n".join(repr(output.message.headers) for output in world.broker.outputs)
    assert "_Unexpected" in headers
    _assert_clean(headers.encode())
    _assert_clean(b"\n".join(lines))
    _assert_clean(caplog.text.encode())


def test_the_traceparent_of_an_event_is_passed_on(simulator: Simulator) -> None:
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

    def prepare(world: World) -> None:
        announce = world.announce
        world.announce = (  # type: ignore[method-assign]
            lambda event, headers=(): announce(event, ((TRACEPARENT, trace.encode()),))
        )

    document = make_document(random.Random(1), "document")
    world = simulator.run(
        Scenario(
            seed=5,
            events=(EventPlan(0.0, 0, "bundle", (document,)),),
            policy=plain_policy(),
            faults_until=0.0,
        ),
        prepare=prepare,
    )
    assert {output.header(TRACEPARENT) for output in world.broker.outputs} == {trace}


def _assert_clean(data: bytes) -> None:
    for planted in (CANARY, TOKEN, "%PDF", "images.test"):
        assert planted.encode() not in data
