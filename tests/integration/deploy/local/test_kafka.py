"""Apache Kafka with one broker: start, data kept, settings, and a start that fails."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented, not "exported"
    AdminClient,
    ConfigResource,
)

from deploy.local.kafka import KafkaCluster, start_kafka
from deploy.local.process import ServerFailed
from tests.servers import create_topic

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]


def write(bootstrap: str, topic: str, *values: bytes) -> None:
    """Write and wait until every message is acknowledged by all copies."""
    answers: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: answers.append(error))
    assert producer.flush(120) == 0
    assert answers == [None] * len(values)


def read(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages = consumer.consume(count, timeout=120)
    consumer.close()
    return [message.value() for message in messages]


@pytest.mark.slow
def test_messages_survive_a_crash_and_a_later_start_over_the_same_folder(tmp_path: Path) -> None:
    with KafkaCluster(1, data_dir=tmp_path) as cluster:
        create_topic(cluster.bootstrap, "kept", 1)
        write(cluster.bootstrap, "kept", b"before the crash")
        address = cluster.bootstrap

        cluster.kill(1)
        assert not cluster.running(1)
        cluster.start_again(1)

        assert cluster.bootstrap == address
        write(cluster.bootstrap, "kept", b"after it")
    with start_kafka("apache", data_dir=tmp_path) as later:
        assert later.description == "Apache Kafka 4.4.0 (KRaft, 1 broker)"
        assert read(later.bootstrap, "kept", 2) == [b"before the crash", b"after it"]


@pytest.mark.slow
def test_settings_reach_the_broker_and_nothing_is_left_behind() -> None:
    with KafkaCluster(
        1, message_max_bytes=2_000_000, properties={"log.retention.hours": "7"}
    ) as cluster:
        folder = cluster.data_dir
        create_topic(cluster.bootstrap, "big", 1)
        answers: list[KafkaError | None] = []
        producer = Producer(
            {"bootstrap.servers": cluster.bootstrap, "message.max.bytes": 10_000_000}
        )
        for size in (1_900_000, 2_100_000):
            producer.produce("big", bytes(size), on_delivery=lambda error, _: answers.append(error))
        assert producer.flush(60) == 0
        within, beyond = answers
        assert within is None
        assert beyond is not None
        assert beyond.code() == KafkaError.MSG_SIZE_TOO_LARGE

        broker = ConfigResource(ConfigResource.Type.BROKER, "1")
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        settings = admin.describe_configs([broker])[broker].result(60)
        assert settings["log.retention.hours"].value == "7"
        assert settings["auto.create.topics.enable"].value == "false"
    assert not folder.exists()


def test_a_start_that_fails_shows_kafkas_own_words(tmp_path: Path) -> None:
    cluster = KafkaCluster(
        1, data_dir=tmp_path, properties={"log.retention.check.interval.ms": "never"}
    )
    with pytest.raises(ServerFailed, match=r"(?s)log\.retention\.check\.interval\.ms"):
        cluster.start()


def test_a_broker_that_ends_while_it_starts_is_noticed_and_quoted(tmp_path: Path) -> None:
    with KafkaCluster(1, data_dir=tmp_path):
        pass
    # Damaged after it was formatted: the start itself fails, not the formatting.
    for checkpoint in (tmp_path / "broker-1" / "data").glob("meta.properties"):
        checkpoint.write_text(checkpoint.read_text().replace("node.id=1", "node.id=7"))
    with pytest.raises(ServerFailed, match=r"(?s)ended with exit code 1.*node id 7 doesn't match"):
        KafkaCluster(1, data_dir=tmp_path).start()


def test_a_stopped_cluster_has_no_address() -> None:
    with pytest.raises(ServerFailed, match="not running"):
        _ = KafkaCluster(1).bootstrap


def test_the_embedded_kafka_passes_messages_and_says_what_it_is() -> None:
    with start_kafka("embedded") as running:
        assert running.kind == "embedded"
        assert "not Apache Kafka" in running.description
        write(running.bootstrap, "any", b"hello")
    with pytest.raises(KafkaException):
        AdminClient({"bootstrap.servers": running.bootstrap, "log_level": 0}).list_topics(timeout=1)
