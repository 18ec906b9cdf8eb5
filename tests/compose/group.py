"""What the broker says of the workers' group."""

from __future__ import annotations

from dataclasses import dataclass

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Member:
    address: str
    """Of its host, as the broker sees it."""
    partitions: frozenset[int]


class Group:
    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self._bootstrap, self._group, self._topic = bootstrap, group, topic
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def members(self) -> list[Member]:
        described = self._admin.describe_consumer_groups([self._group], request_timeout=TIMEOUT_S)
        found = described[self._group].result()
        return [
            Member(
                member.host.lstrip("/"),
                frozenset(
                    assigned.partition
                    for assigned in (
                        member.assignment.topic_partitions if member.assignment else ()
                    )
                ),
            )
            for member in found.members
        ]

    def lag(self) -> dict[int, int]:
        """Partition -> events whose offset is not committed."""
        asked = ConsumerGroupTopicPartitions(self._group)
        listed = self._admin.list_consumer_group_offsets([asked], request_timeout=TIMEOUT_S)
        committed = {
            one.partition: one.offset
            for one in listed[self._group].result().topic_partitions
            if one.topic == self._topic and one.offset >= 0
        }
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": "unused"})
        try:
            partitions = consumer.list_topics(self._topic, timeout=TIMEOUT_S)
            lag = {}
            for number in partitions.topics[self._topic].partitions:
                low, high = consumer.get_watermark_offsets(
                    TopicPartition(self._topic, number), timeout=TIMEOUT_S
                )
                lag[number] = high - committed.get(number, low)
            return lag
        finally:
            consumer.close()
