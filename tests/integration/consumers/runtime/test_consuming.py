"""A worker on Apache Kafka: every record once, every offset committed, an end that tells."""

from __future__ import annotations

import pytest

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

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_record_is_processed_and_committed_and_the_stop_is_clean(
    kafka: Kafka, make_topic: MakeTopic, protocol: str
) -> None:
    topic, group = make_topic(partitions=4), unique_group()
    produce(kafka.bootstrap, topic, 300)
    member = Member(
        settings_for(kafka.bootstrap, group, topic, group_protocol=protocol), sleeping(0.05)
    )
    with running(member):
        eventually(lambda: member.seen.counts["settled"] == 300, "300 events settled")
        assert member.stop() is Exit.OK
    assert committed(kafka.bootstrap, group, topic) == ends(kafka.bootstrap, topic, 4)
    assert len({(d.partition, d.offset) for d in member.events}) == len(member.events) == 300

    successor = Member(
        settings_for(kafka.bootstrap, group, topic, group_protocol=protocol), sleeping(0)
    )
    with running(successor):
        produce(kafka.bootstrap, topic, 1)
        eventually(lambda: successor.seen.counts["settled"] == 1, "the one new event settled")
        assert successor.stop() is Exit.OK
    assert len(successor.events) == 1
