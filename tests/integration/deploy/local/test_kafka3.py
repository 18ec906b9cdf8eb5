"""Three brokers: one may go, without a message lost; all are back for the next test."""

from __future__ import annotations

import time

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented, not "exported"
    AdminClient,
    ConfigResource,
)

from deploy.local.kafka import KafkaCluster
from tests.integration.deploy.local.test_kafka import read, write
from tests.servers import MakeTopic

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(400)]


def _leader(cluster: KafkaCluster, topic: str) -> int:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    return int(admin.list_topics(topic, timeout=30).topics[topic].partitions[0].leader)


def test_topics_have_three_copies_and_need_two(
    kafka3: KafkaCluster, make_topic3: MakeTopic
) -> None:
    topic = make_topic3("copies")
    admin = AdminClient({"bootstrap.servers": kafka3.bootstrap})
    partition = admin.list_topics(topic, timeout=30).topics[topic].partitions[0]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    settings = admin.describe_configs([resource])[resource].result(30)

    assert sorted(partition.replicas) == [1, 2, 3]
    assert settings["min.insync.replicas"].value == "2"


def test_acknowledged_messages_survive_the_death_of_the_leader(
    kafka3: KafkaCluster, make_topic3: MakeTopic
) -> None:
    topic = make_topic3("leader-dies")
    write(kafka3.bootstrap, topic, b"one")
    dead = _leader(kafka3, topic)

    kafka3.kill(dead)
    write(kafka3.bootstrap, topic, b"two")
    assert read(kafka3.bootstrap, topic, 2) == [b"one", b"two"]
    kafka3.start_again(dead)

    # It catches up and is a full copy again.
    admin = AdminClient({"bootstrap.servers": kafka3.bootstrap})
    deadline = time.monotonic() + 120
    while dead not in admin.list_topics(topic, timeout=30).topics[topic].partitions[0].isrs:
        assert time.monotonic() < deadline, "the broker never caught up"
        time.sleep(0.1)


def test_a_broker_that_is_restarted_is_another_process_with_the_same_address_and_data(
    kafka3: KafkaCluster, make_topic3: MakeTopic
) -> None:
    topic = make_topic3("restarted")
    write(kafka3.bootstrap, topic, b"one")
    before, pids = kafka3.bootstrap, [kafka3.pid(one) for one in kafka3.broker_ids]

    kafka3.restart(3)

    assert kafka3.bootstrap == before
    changed = [kafka3.pid(one) != pid for one, pid in zip(kafka3.broker_ids, pids, strict=True)]
    assert changed == [False, False, True]
    assert read(kafka3.bootstrap.split(",")[2], topic, 1) == [b"one"]


def test_what_one_test_stops_is_up_for_the_next_part_one(kafka3: KafkaCluster) -> None:
    kafka3.stop(2)
    kafka3.kill(1)  # no majority is left: neither could come back alone
    assert [kafka3.running(one) for one in kafka3.broker_ids] == [False, False, True]


def test_what_one_test_stops_is_up_for_the_next_part_two(kafka3: KafkaCluster) -> None:
    assert all(map(kafka3.running, kafka3.broker_ids))
    for address in kafka3.bootstrap.split(","):
        admin = AdminClient({"bootstrap.servers": address})
        assert set(admin.list_topics(timeout=30).brokers) == {1, 2, 3}
