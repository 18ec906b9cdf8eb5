"""Reading a topic from a moment on to where it ends now, in no group and committing nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka import Message as Record

from schemas.cloudevents import Headers

TIMEOUT_S = 30.0


class TopicUnreadable(Exception):
    """A topic is missing, or no broker answers. The text says which and what to check."""


class OutOfTime(Exception):
    """The time budget ended before the topic did."""


def headers_of(record: Record) -> list[tuple[str, bytes | None]]:
    """In order, as received; a name may come twice."""
    found: Any = record.headers() or []
    return list(found)


def header_text(headers: Headers) -> dict[str, str]:
    """For reading: the last of equal names, what is not UTF-8 replaced."""
    return {name: (value or b"").decode(errors="replace") for name, value in headers}


def read_topic(
    client: Mapping[str, str],
    topic: str,
    *,
    since: float | None = None,
    until: float | None = None,
    partitions: Collection[int] | None = None,
    budget_s: float | None = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> Iterator[Record]:
    """The records of a topic (or of some of its partitions) up to its end as of now.

    ``since`` (seconds since 1970) starts at the first record that is not older; a partition ends
    with its first record that is younger than ``until``.

    :raises TopicUnreadable: see the class.
    :raises OutOfTime: ``budget_s`` seconds have passed.
    """
    deadline = None if budget_s is None else monotonic() + budget_s

    def left() -> float:
        if deadline is None:
            return TIMEOUT_S
        seconds = deadline - monotonic()
        if seconds <= 0:
            raise OutOfTime
        return min(seconds, TIMEOUT_S)

    consumer = Consumer(
        {
            **client,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 50,
        }
    )
    try:
        open_partitions = _assign(consumer, topic, since, partitions, left)
        while open_partitions:
            record = consumer.poll(left())
            if record is None:
                left()
                raise TopicUnreadable(f"topic {topic}: no broker has sent anything for a while")
            error = record.error()
            partition = record.partition()
            if error is not None:
                if error.code() != KafkaError._PARTITION_EOF:
                    raise TopicUnreadable(f"topic {topic}: {error.name()}")
                # The end as of when it was reached: also behind a transaction marker.
                open_partitions.pop(partition, None)
                continue
            if partition not in open_partitions:
                continue
            offset = record.offset()
            if offset is None or offset >= open_partitions[partition]:
                open_partitions.pop(partition)
                continue
            if until is not None and record.timestamp()[1] > until * 1000:
                open_partitions.pop(partition)
                continue
            yield record
            if offset + 1 >= open_partitions[partition]:
                open_partitions.pop(partition)
    except KafkaException as error:
        raise TopicUnreadable(f"topic {topic}: {error.args[0].name()}") from None
    finally:
        consumer.close()


def _assign(
    consumer: Consumer,
    topic: str,
    since: float | None,
    partitions: Collection[int] | None,
    left: Callable[[], float],
) -> dict[int | None, int]:
    """The end offset of each partition that has something to read."""
    found = consumer.list_topics(topic, timeout=left()).topics[topic]
    if found.error is not None:
        raise TopicUnreadable(f"topic {topic}: {found.error.name()}; see `bundles topics check`")
    wanted = [p for p in found.partitions if partitions is None or p in partitions]
    starts = [TopicPartition(topic, p, OFFSET_BEGINNING) for p in wanted]
    if since is not None:
        asked = [TopicPartition(topic, p, max(0, int(since * 1000))) for p in wanted]
        starts = consumer.offsets_for_times(asked, timeout=left())
    ends: dict[int | None, int] = {}
    assigned = []
    for start in starts:
        low, high = consumer.get_watermark_offsets(start, timeout=left())
        first = max(low, start.offset) if start.offset >= 0 else low
        # A negative offset other than the beginning: nothing is as young as that.
        if (start.offset == OFFSET_BEGINNING or start.offset >= 0) and high > first:
            ends[start.partition] = high
            assigned.append(TopicPartition(topic, start.partition, first))
    consumer.assign(assigned)
    return ends
