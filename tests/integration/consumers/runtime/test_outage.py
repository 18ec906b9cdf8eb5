"""The only broker dies and comes back: workers wait it out by themselves."""

from __future__ import annotations

import time

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
from tests.servers import create_topic, unique_name

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def test_workers_go_on_by_themselves_after_the_broker_was_away_longer_than_a_session() -> None:
    with KafkaCluster(1) as cluster:
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
            produce(cluster.bootstrap, topic, 400)
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
                    lambda: sum(committed(cluster.bootstrap, group, topic).values()) == 400,  # noqa: B023
                    f"everything committed ({protocol}): {member.worker.failure}",
                )
                assert member.stop() is Exit.OK
        assert max(gaps) < 1
