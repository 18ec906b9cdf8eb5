"""What every other integration test stands on."""

import pytest
from confluent_kafka import Consumer, Producer
from minio import Minio

from tests.servers import S3, Kafka, MakeBucket, MakeTopic

pytestmark = pytest.mark.integration


def test_a_made_topic_takes_messages_and_gives_them_back(
    kafka: Kafka, make_topic: MakeTopic
) -> None:
    topic = make_topic("round trip", partitions=3)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "enable.idempotence": True})
    for number in range(30):
        producer.produce(topic, key=str(number % 7), value=str(number))
    assert producer.flush(60) == 0

    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": topic,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    received = consumer.consume(30, timeout=60)
    consumer.close()

    assert [message.error() for message in received] == [None] * 30
    assert sorted(int(message.value() or b"") for message in received) == list(range(30))


def test_topics_do_not_appear_by_themselves(kafka: Kafka) -> None:
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "message.timeout.ms": 3_000})
    producer.produce("nobody-made-this", b"x", on_delivery=lambda error, _: failures.append(error))
    producer.flush(60)

    assert failures
    assert failures[0] is not None
    assert "nobody-made-this" not in kafka.admin().list_topics(timeout=30).topics


def test_made_topics_and_buckets_have_names_of_their_own(
    make_topic: MakeTopic, make_bucket: MakeBucket
) -> None:
    assert make_topic("same") != make_topic("same")
    assert make_bucket("same") != make_bucket("same")


def test_a_made_bucket_is_empty_and_usable(s3: S3, make_bucket: MakeBucket) -> None:
    client: Minio = s3.client()
    assert list(client.list_objects(make_bucket("Some Label!"), recursive=True)) == []
