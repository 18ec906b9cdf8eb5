"""Partitions that move between members on Apache Kafka, with both group protocols."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from consumers.runtime.delivery import Delivery
from consumers.runtime.effects import Perform, Sleep, Task
from consumers.runtime.exits import Exit
from tests.integration.consumers.runtime.members import (
    PROTOCOLS,
    Member,
    committed,
    ends,
    eventually,
    produce,
    running,
    settings_for,
    sleeping,
    unique_group,
)
from tests.servers import Kafka, MakeTopic
from tests.unit.consumers.runtime.fakes import Gate

pytestmark = pytest.mark.integration


def quick(protocol: str) -> dict[str, Any]:
    """Settings under which members notice a rebalance soon."""
    if protocol == "consumer":  # the broker says how often members beat
        return {"group_protocol": protocol}
    return {"group_protocol": protocol, "consumer": {"heartbeat.interval.ms": 300}}


@contextmanager
def watched_offsets(kafka: Kafka, group: str, topic: str) -> Iterator[list[str]]:
    """What an outsider sees go wrong with the group's committed offsets meanwhile."""
    wrong: list[str] = []
    highest: dict[int, int] = {}
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(0.2):
            for partition, offset in committed(kafka.bootstrap, group, topic).items():
                if offset < highest.get(partition, 0):
                    wrong.append(f"[{partition}] went from {highest[partition]} to {offset}")
                highest[partition] = max(offset, highest.get(partition, 0))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield wrong
    finally:
        stop.set()
        thread.join(60)


@pytest.mark.slow
@pytest.mark.parametrize(("protocol", "rounds"), [("classic", 5), ("consumer", 2)])
def test_no_kept_partition_is_dead_after_members_joined_and_left_under_back_pressure(
    kafka: Kafka, make_topic: MakeTopic, protocol: str, rounds: int
) -> None:
    topic, group = make_topic(partitions=8), unique_group()
    produce(kafka.bootstrap, topic, 800)
    settings = settings_for(
        kafka.bootstrap, group, topic, in_flight_high=20, in_flight_low=10, **quick(protocol)
    )
    stay = [Member(settings, sleeping(0.5)) for _ in range(2)]
    with watched_offsets(kafka, group, topic) as wrong, running(*stay):
        eventually(lambda: all(member.owned for member in stay), "both own partitions")
        for _ in range(rounds):
            visitor = Member(settings, sleeping(0.5))
            with running(visitor):
                eventually(lambda: visitor.owned, "the third member owns partitions")  # noqa: B023
                assert visitor.stop() is Exit.OK
        last = ends(kafka.bootstrap, topic, 8)
        eventually(
            lambda: committed(kafka.bootstrap, group, topic) == last, "every end is committed"
        )
        eventually(lambda: sum(m.worker.snapshot().in_flight for m in stay) == 0, "none in flight")
        eventually(lambda: not any(m.seen.paused_now for m in stay), "nothing is left paused")
        assert [m.stop() for m in stay] == [Exit.OK, Exit.OK]
    assert wrong == []
    assert sum(m.seen.counts["paused"] for m in stay) > 0  # there was back-pressure


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_completion_after_the_partition_moved_is_stale_and_its_offset_not_set_back(
    kafka: Kafka, make_topic: MakeTopic, protocol: str
) -> None:
    topic, group = make_topic(partitions=2), unique_group()
    produce(kafka.bootstrap, topic, 1, partition=0)
    produce(kafka.bootstrap, topic, 1, partition=1)
    gate = Gate()

    def hang(delivery: Delivery) -> Task:
        yield Perform("io", gate)

    # Half of the grace, one second, is the deadline of a revoke.
    settings = settings_for(kafka.bootstrap, group, topic, grace=2.0, **quick(protocol))
    old, new = Member(settings, hang), Member(settings, sleeping(0))
    with watched_offsets(kafka, group, topic) as wrong, running(old):
        eventually(lambda: len(old.events) == 2, "both events are with the first member")
        with running(new):
            eventually(lambda: old.seen.revocations, "a partition moved")
            [(moved, unfinished)] = old.seen.revocations
            assert unfinished == 1
            produce(kafka.bootstrap, topic, 3, partition=moved.number)
            eventually(
                lambda: committed(kafka.bootstrap, group, topic).get(moved.number) == 4,
                "the new owner committed further",
            )
            commits = len([c for c in old.seen.commits if c[0] == moved])
            gate.open()
            eventually(lambda: old.seen.counts["stale"] == 1, "the late completion was counted")
            kept = 1 - moved.number
            eventually(
                lambda: committed(kafka.bootstrap, group, topic) == {moved.number: 4, kept: 1},
                "what the first member kept went on",
            )
            assert len([c for c in old.seen.commits if c[0] == moved]) == commits
    assert wrong == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_was_done_before_a_move_is_not_done_again(
    kafka: Kafka, make_topic: MakeTopic, protocol: str
) -> None:
    topic, group = make_topic(partitions=2), unique_group()
    for partition in (0, 1):
        produce(kafka.bootstrap, topic, 100, partition=partition)

    def first_waits(delivery: Delivery) -> Task:
        yield Sleep(1000 if delivery.offset == 0 else 0)

    settings = settings_for(kafka.bootstrap, group, topic, **quick(protocol))
    old, new = Member(settings, first_waits), Member(settings, sleeping(0))
    with running(old):
        eventually(lambda: old.seen.counts["settled"] == 198, "all but the waiting two settled")
        with running(new):
            eventually(lambda: new.seen.counts["settled"], "the moved waiting event settled")
            moved = new.events[0].partition
            eventually(
                lambda: committed(kafka.bootstrap, group, topic).get(moved) == 100,
                "the moved partition reached its end",
            )
            assert [(d.partition, d.offset) for d in new.events] == [(moved, 0)]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_partitions_gained_while_intake_is_stopped_deliver_nothing_until_it_starts_again(
    kafka: Kafka, make_topic: MakeTopic, protocol: str
) -> None:
    topic, group = make_topic(partitions=4), unique_group()
    settings = settings_for(kafka.bootstrap, group, topic, **quick(protocol))
    allowed = True
    stays = Member(settings, sleeping(0), intake_allowed=lambda: allowed)
    leaves = Member(settings, sleeping(0))
    with running(stays, leaves):
        eventually(lambda: len(stays.owned) == len(leaves.owned) == 2, "two partitions each")
        allowed = False
        eventually(lambda: len(stays.seen.paused_now) == 2, "paused")
        leaves.stop()
        eventually(lambda: len(stays.owned) == 4, "all partitions are with one member")
        produce(kafka.bootstrap, topic, 200)
        taken = stays.worker.snapshot().taken_at + 2
        eventually(lambda: stays.worker.snapshot().taken_at > taken, "time for deliveries")
        assert stays.events == []
        assert len(stays.seen.paused_now) == 4
        allowed = True
        eventually(lambda: stays.seen.counts["settled"] == 200, "everything settled")


def test_an_eager_assignor_works_too(kafka: Kafka, make_topic: MakeTopic) -> None:
    topic, group = make_topic(partitions=4), unique_group()
    produce(kafka.bootstrap, topic, 400)
    settings = settings_for(kafka.bootstrap, group, topic, assignor="range", **quick("classic"))
    first, second = Member(settings, sleeping(0.2)), Member(settings, sleeping(0.2))
    with running(first):
        eventually(lambda: first.events, "the first member works")
        with running(second):
            eventually(lambda: len(first.owned) == len(second.owned) == 2, "two each")
            last = ends(kafka.bootstrap, topic, 4)
            eventually(lambda: committed(kafka.bootstrap, group, topic) == last, "all committed")
            assert second.stop() is Exit.OK
        assert first.stop() is Exit.OK


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_of_two_members_with_the_same_static_id_one_ends_with_its_own_code(
    kafka: Kafka, make_topic: MakeTopic, protocol: str
) -> None:
    topic, group = make_topic(), unique_group()
    changes = quick(protocol)
    changes["consumer"] = {"group.instance.id": "worker-1", **changes.get("consumer", {})}
    settings = settings_for(kafka.bootstrap, group, topic, **changes)
    first, second = Member(settings, sleeping(0)), Member(settings, sleeping(0))
    # The classic protocol puts the earlier member out, the newer one refuses the later.
    fenced, remaining = (first, second) if protocol == "classic" else (second, first)
    with running(first):
        eventually(lambda: first.owned, "the first member owns the partition")
        with running(second):
            assert fenced.wait_end() is Exit.FENCED
            assert fenced.worker.failure is not None
            produce(kafka.bootstrap, topic, 1)
            eventually(lambda: remaining.seen.counts["settled"] == 1, "the other one works")


@pytest.mark.slow
def test_a_group_moves_from_the_classic_to_the_consumer_protocol_member_by_member(
    kafka: Kafka, make_topic: MakeTopic
) -> None:
    topic, group = make_topic(partitions=4), unique_group()
    produce(kafka.bootstrap, topic, 400)
    old = Member(settings_for(kafka.bootstrap, group, topic, **quick("classic")), sleeping(0.05))
    new = Member(settings_for(kafka.bootstrap, group, topic, **quick("consumer")), sleeping(0.05))
    with watched_offsets(kafka, group, topic) as wrong, running(old):
        eventually(lambda: old.owned, "the classic member works")
        with running(new):
            eventually(lambda: new.owned, "the new member works beside it")
            assert old.stop() is Exit.OK
            eventually(lambda: len(new.owned) == 4, "the new member has everything")
            produce(kafka.bootstrap, topic, 100)
            last = ends(kafka.bootstrap, topic, 4)
            eventually(lambda: committed(kafka.bootstrap, group, topic) == last, "all committed")
            assert new.stop() is Exit.OK
    assert wrong == []
