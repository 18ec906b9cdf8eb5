"""A partition that the client no longer fetches is brought back by the watchdog."""

from __future__ import annotations

import pytest
from confluent_kafka import TopicPartition

from consumers.runtime.delivery import Delivery
from consumers.runtime.effects import Sleep, Task
from consumers.runtime.exits import Exit
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
from tests.servers import Kafka, MakeTopic

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_partition_that_delivers_nothing_is_sought_then_assigned_anew_and_goes_on(
    kafka: Kafka, make_topic: MakeTopic, protocol: str
) -> None:
    topic, group = make_topic(partitions=2), unique_group()
    produce(kafka.bootstrap, topic, 1, partition=0)

    def work(delivery: Delivery) -> Task:
        if (delivery.partition, delivery.offset) == (0, 0):
            # What clients do by themselves after some rebalances: paused, and nobody knows.
            client = member.worker._consumer
            assert client is not None
            client.pause([TopicPartition(topic, 0)])
        yield Sleep(0)

    member = Member(
        settings_for(
            kafka.bootstrap, group, topic, partition_stuck_after=1.5, group_protocol=protocol
        ),
        work,
    )
    with running(member):
        eventually(lambda: member.seen.counts["settled"] == 1, "the first event settled")
        produce(kafka.bootstrap, topic, 20, partition=0)
        eventually(lambda: member.seen.counts["settled"] == 21, "the stuck partition goes on")
        produce(kafka.bootstrap, topic, 20, partition=1)
        eventually(lambda: member.seen.counts["settled"] == 41, "the other one always went on")
        assert [step for _, step in member.seen.steps] == ["seek", "reassign"]
        assert member.stop() is Exit.OK
    assert committed(kafka.bootstrap, group, topic) == {0: 21, 1: 20}
