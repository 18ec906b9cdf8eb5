"""Reading a topic from a moment on to where it ends now, in no group and committing nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka import Message as Record

if TYPE_CHECKING:
    from schemas.cloudevents import Headers

TIMEOUT_S = 30.0
MOVING = frozenset({KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE})
"""A partition is new or gets another leader: asked again after a look at the metadata."""
MOVING_S = 10.0


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
) -> Iterator[Record]:
    """As `TopicReader.read`, with a reader of its own."""
    with TopicReader(client, topic) as reader:
        yield from reader.read(since=since, until=until, partitions=partitions, budget_s=budget_s)


class TopicReader:
    """One topic, on one connection for all that is read of it. It connects when it is made, in the
    background.

    :raises TopicUnreadable: the client's properties cannot work.
    """

    def __init__(self, client: Mapping[str, str], topic: str) -> None:
        self._topic = topic
        self._partitions: list[int] = []
        with self._readable():
            self._consumer = Consumer(
                {
                    **client,
                    "group.id": "unused",
                    "enable.auto.commit": False,
                    "enable.partition.eof": True,
                    "auto.offset.reset": "earliest",
                    # At a partition's end: whatever is asked next waits behind this.
                    "fetch.wait.max.ms": 10,
                    # Half of it is the least time between two attempts at a first connection.
                    "reconnect.backoff.ms": 20,
                }
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._consumer.close()

    def partitions(self, budget_s: float | None = None) -> list[int]:
        """As they were when first asked for.

        :raises TopicUnreadable: see the class.
        :raises OutOfTime: ``budget_s`` seconds have passed.
        """
        return self._known_partitions(_within(budget_s))

    def read(
        self,
        *,
        since: float | None = None,
        until: float | None = None,
        partitions: Collection[int] | None = None,
        budget_s: float | None = None,
    ) -> Iterator[Record]:
        """The records of a topic (or of some of its partitions) up to its end as of now.

        ``since`` (seconds since 1970) starts at the first record that is not older; a partition
        ends with its first record that is younger than ``until``. One such call at a time.

        :raises TopicUnreadable: see the class.
        :raises OutOfTime: ``budget_s`` seconds have passed.
        """
        left = _within(budget_s)
        with self._readable():
            open_partitions = self._assign(since, partitions, left)
            while open_partitions:
                record = self._consumer.poll(left())
                if record is None:
                    left()
                    raise TopicUnreadable(
                        f"topic {self._topic}: no broker has sent anything for a while"
                    )
                error = record.error()
                partition = record.partition()
                if error is not None:
                    if error.code() != KafkaError._PARTITION_EOF:
                        raise TopicUnreadable(f"topic {self._topic}: {error.name()}")
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
            self._consumer.unassign()

    def _assign(
        self,
        since: float | None,
        partitions: Collection[int] | None,
        left: Callable[[], float],
    ) -> dict[int | None, int]:
        """The end offset of each partition that has something to read."""
        known = self._known_partitions(left)
        wanted = [p for p in known if partitions is None or p in partitions]
        if not wanted:
            return {}
        ends = self._offsets(wanted, OFFSET_END, left)
        moment = OFFSET_BEGINNING if since is None else max(0, int(since * 1000))
        starts = self._offsets(wanted, moment, left)
        # A negative start: nothing is as young as that.
        some = {p: start for p, start in starts.items() if 0 <= start < ends[p]}
        self._consumer.assign([TopicPartition(self._topic, p, some[p]) for p in some])
        return {p: ends[p] for p in some}

    def _offsets(
        self, partitions: list[int], moment: int, left: Callable[[], float]
    ) -> dict[int, int]:
        """The first offset that is not older than ``moment`` (milliseconds since 1970, or one of
        librdkafka's OFFSET_BEGINNING and OFFSET_END), of all partitions with one request."""
        asked = [TopicPartition(self._topic, p, moment) for p in partitions]
        patience = time.monotonic() + MOVING_S
        while True:
            try:
                found = self._consumer.offsets_for_times(asked, timeout=left())
                errors = [one.error for one in found if one.error is not None]
            except KafkaException as raised:  # of a single partition's error, for instance
                found, errors = [], [raised.args[0]]
            if not errors:
                return {one.partition: one.offset for one in found}
            for error in errors:
                if error.code() not in MOVING or time.monotonic() > patience:
                    raise TopicUnreadable(f"topic {self._topic}: {error.name()}")
            time.sleep(0.1)
            self._consumer.list_topics(self._topic, timeout=left())

    def _known_partitions(self, left: Callable[[], float]) -> list[int]:
        if not self._partitions:
            with self._readable():
                found = self._consumer.list_topics(self._topic, timeout=left()).topics[self._topic]
            if found.error is not None:
                raise TopicUnreadable(
                    f"topic {self._topic}: {found.error.name()}; see `bundles topics check`"
                )
            self._partitions = list(found.partitions)
        return self._partitions

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            raise TopicUnreadable(f"topic {self._topic}: {error.args[0].name()}") from None


def _within(budget_s: float | None) -> Callable[[], float]:
    """How long the next call may take so that all of them stay within the budget; raises
    OutOfTime when that is not at all."""
    deadline = None if budget_s is None else time.monotonic() + budget_s

    def left() -> float:
        if deadline is None:
            return TIMEOUT_S
        seconds = deadline - time.monotonic()
        if seconds <= 0:
            raise OutOfTime
        return min(seconds, TIMEOUT_S)

    return left
