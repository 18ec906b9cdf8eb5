"""The only broker dies: workers wait it out by themselves, or end in order when told to."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator

import pytest

from consumers.runtime.delivery import Delivery
from consumers.runtime.effects import Message, Publish, PublishRefused, Sleep, Task
from consumers.runtime.exits import Exit
from deploy.local.kafka import KafkaCluster
from tests.integration.consumers.runtime.members import (
    PROTOCOLS,
    Member,
    committed,
    eventually,
    produce,
    running,
    settings_for,
    unique_group,
)
from tests.integration.consumers.runtime.processes import process
from tests.servers import create_topic, unique_name

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(1) as cluster:
        yield cluster


@pytest.fixture
def cluster(own_cluster: KafkaCluster) -> KafkaCluster:
    """A running broker that the test may kill."""
    [broker] = own_cluster.broker_ids
    if not own_cluster.running(broker):
        own_cluster.start_again(broker)
    return own_cluster


def test_workers_go_on_by_themselves_after_the_broker_was_away_longer_than_a_session(
    cluster: KafkaCluster,
) -> None:
    results = unique_name("results")
    create_topic(cluster.bootstrap, results, 1)
    members: dict[str, tuple[Member, str, str]] = {}

    def work(delivery: Delivery) -> Task:
        yield Sleep(0.5)
        while True:
            try:
                yield Publish(Message(results, delivery.key, delivery.value))
                return
            except PublishRefused:
                yield Sleep(0.5)

    for protocol in PROTOCOLS:
        topic, group = unique_name(protocol), unique_group()
        create_topic(cluster.bootstrap, topic, 2)
        produce(cluster.bootstrap, topic, 200)
        settings = settings_for(
            cluster.bootstrap,
            group,
            topic,
            group_protocol=protocol,
            in_flight_high=20,
            in_flight_low=10,
            producer={"delivery.timeout.ms": 3000},
        )
        members[protocol] = (Member(settings, work), topic, group)

    with running(*(member for member, _, _ in members.values())):
        for member, _, _ in members.values():
            eventually(lambda: member.seen.counts["settled"] > 20, "works")  # noqa: B023
        cluster.kill(cluster.broker_ids[0])
        gaps: list[float] = []
        end = time.monotonic() + 9  # the classic session is 6 s
        while time.monotonic() < end:
            gaps += [member.worker.loop_age for member, _, _ in members.values()]
            time.sleep(0.01)
        cluster.start_again(cluster.broker_ids[0])
        for protocol, (member, topic, group) in members.items():
            eventually(
                lambda: sum(committed(cluster.bootstrap, group, topic).values()) == 200,  # noqa: B023
                f"everything committed ({protocol}): {member.worker.failure}",
            )
            assert member.stop() is Exit.OK
    assert sorted(gaps)[len(gaps) // 2] < 1  # nothing in the loop waits for a broker


def test_with_the_broker_gone_sigterm_ends_within_the_grace_and_tells_what_is_uncommitted(
    cluster: KafkaCluster,
) -> None:
    grace = 10.0
    with contextlib.ExitStack() as stack:
        workers = []
        for protocol in PROTOCOLS:
            topic = unique_name(protocol)
            create_topic(cluster.bootstrap, topic, 1)
            settings = settings_for(
                cluster.bootstrap, unique_group(), topic, grace=grace, group_protocol=protocol
            )
            worker = stack.enter_context(process(settings, "call:4"))
            worker.wait_told("committed 0 0")  # where it starts
            produce(cluster.bootstrap, topic, 3)
            workers.append(worker)
        for worker in workers:
            worker.wait_told("got", 3)
        cluster.kill(cluster.broker_ids[0])
        for worker in workers:
            worker.wait_told("settled", 3)
        told = time.monotonic()
        for worker in workers:
            worker.popen.send_signal(signal.SIGTERM)
        for worker in workers:
            assert worker.wait_end() == Exit.UNCOMMITTED
            assert worker.told("uncommitted") == ["uncommitted 0 0 0"]
        assert time.monotonic() - told < grace
