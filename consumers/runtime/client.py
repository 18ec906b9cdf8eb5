"""How the Kafka consumer is configured, and what its errors mean for the worker."""

from __future__ import annotations

import logging
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from consumers.runtime.exits import Exit, Failure
from consumers.runtime.offsets import Partition
from consumers.runtime.settings import RuntimeSettings

_OFFSET_LOST = {
    KafkaError._AUTO_OFFSET_RESET,
    KafkaError.OFFSET_OUT_OF_RANGE,
    KafkaError._LOG_TRUNCATION,
}
_ALWAYS_WRONG = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.INVALID_GROUP_ID,
    KafkaError.INCONSISTENT_GROUP_PROTOCOL,
    KafkaError.UNSUPPORTED_ASSIGNOR,
    KafkaError.UNSUPPORTED_VERSION,
    KafkaError._UNSUPPORTED_FEATURE,
}
# Before anything was ever assigned these are wrong settings; later they are an outage or somebody
# else's mistake, which a running worker waits out.
_WRONG_AT_START = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._AUTHENTICATION,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError._SSL,
}


LOGGER = logging.getLogger("librdkafka")
"""Where the clients write what they would otherwise print to stderr in a format of their own."""


def consumer_config(settings: RuntimeSettings) -> dict[str, Any]:
    """librdkafka properties of the consumer.

    Tiny prefetch: `pause` throws the prefetched records away and fetches them again. The client
    neither stores nor commits offsets, nor picks a start, by itself: the ledger decides all three.
    """
    config: dict[str, Any] = {
        "bootstrap.servers": settings.bootstrap_servers,
        "group.id": settings.group_id,
        "group.protocol": settings.group_protocol,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "max.poll.interval.ms": int(settings.max_poll_interval * 1000),
        "queued.min.messages": 50,
        "queued.max.messages.kbytes": 2048,
        "fetch.queue.backoff.ms": 100,
        "fetch.wait.max.ms": 100,  # bounds what a resumed partition waits behind the others
        "logger": LOGGER,
    }
    if settings.group_protocol == "classic":
        config["partition.assignment.strategy"] = settings.assignor
        config["session.timeout.ms"] = int(settings.session_timeout * 1000)
    return {**config, **settings.client, **settings.consumer}


def verdict(error: KafkaError, where: str, *, assigned_before: bool) -> Failure | None:
    """What must follow from an error of the client; None when it deals with it itself."""
    code = error.code()
    if code in _OFFSET_LOST:
        return Failure(
            Exit.OFFSET_LOST,
            f"{where}: {error.str()}. The broker no longer holds what is to be read next (deleted "
            "by retention, or the topic was made anew). Nothing was skipped. Find out what is "
            "missing, set the group's offset with kafka-consumer-groups.sh --reset-offsets, then "
            "start again.",
        )
    if code in _ALWAYS_WRONG or (code in _WRONG_AT_START and not assigned_before):
        return Failure(Exit.CONFIG, f"{where}: {error.str()}")
    if error.fatal() or code == KafkaError._FATAL:  # from `poll` it comes without its flag
        return Failure(Exit.FENCED, f"{where}: {error.str()}")
    return None


def watermarks(
    consumer: Consumer, partition: Partition, *, timeout: float | None = None
) -> tuple[int, int] | None:
    """(lowest offset, highest offset + 1) of ``partition``; None when they are not known.

    :param timeout: ask the broker and wait so many seconds; None = what the client last heard,
        without waiting.
    """
    name = TopicPartition(partition.topic, partition.number)
    try:
        marks: tuple[int, int] | None = (
            consumer.get_watermark_offsets(name, cached=True)
            if timeout is None
            else consumer.get_watermark_offsets(name, timeout=timeout)
        )
    except KafkaException:
        return None
    return marks if marks and marks[0] >= 0 and marks[1] >= 0 else None
