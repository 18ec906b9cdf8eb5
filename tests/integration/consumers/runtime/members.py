"""Group members that run a real `Worker` against a real broker, and what they saw."""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from consumers.runtime.control import Worker
from consumers.runtime.delivery import Delivery
from consumers.runtime.effects import Message, Publish, Sleep, Task
from consumers.runtime.exits import Exit
from consumers.runtime.pools import PoolSettings
from consumers.runtime.publisher import Publisher
from consumers.runtime.scheduler import Scheduler
from consumers.runtime.settings import RuntimeSettings
from tests.unit.consumers.runtime.fakes import Seen

PROTOCOLS = ("classic", "consumer")


def eventually(
    condition: Callable[[], object], what: str, seconds: float = 60.0, pause: float = 0.02
) -> None:
    """Wait until ``condition()`` is true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds:g} s: {what}"
        time.sleep(pause)


def settings_for(bootstrap: str, group: str, topic: str, **changes: Any) -> RuntimeSettings:
    """Quick settings: a test must not wait for production's intervals."""
    quick = RuntimeSettings(
        bootstrap_servers=bootstrap,
        group_id=group,
        topics=(topic,),
        session_timeout=6.0,
        commit_interval=0.1,
        max_poll_interval=60.0,
    )
    return replace(quick, **changes)


class Member:
    """One worker on a thread of its own. ``work(delivery)`` makes each task."""

    def __init__(
        self,
        settings: RuntimeSettings,
        work: Callable[[Delivery], Task],
        *,
        intake_allowed: Callable[[], bool] = lambda: True,
        on_task_error: Any = None,
        threads: int = 4,
    ) -> None:
        self.seen = Seen()
        self.events: list[Delivery] = []
        self.exit: Exit | None = None
        self.publisher = Publisher(settings, self.seen)
        self.scheduler = Scheduler({"io": PoolSettings(threads)}, self.publisher)

        def handler(delivery: Delivery) -> Task:
            self.events.append(delivery)
            return work(delivery)

        self.worker = Worker(
            settings,
            handler,
            self.scheduler,
            self.publisher,
            intake_allowed=intake_allowed,
            observer=self.seen,
            on_task_error=on_task_error,
        )
        self._thread = threading.Thread(target=self._run, name="member", daemon=True)

    def _run(self) -> None:
        self.exit = self.worker.run()

    def start(self) -> Member:
        self._thread.start()
        return self

    @property
    def owned(self) -> set[int]:
        return {p.partition for p in self.worker.snapshot().partitions}

    def wait_end(self, seconds: float = 60.0) -> Exit:
        self._thread.join(seconds)
        assert self.exit is not None, "the worker did not end"
        return self.exit

    def stop(self) -> Exit:
        self.worker.stop()
        return self.wait_end()


@contextlib.contextmanager
def running(*members: Member) -> Iterator[None]:
    """Start ``members``; stop those that still run at the end, whatever happened."""
    for member in members:
        member.start()
    try:
        yield
    finally:
        for member in members:
            member.worker.stop()
        for member in members:
            member._thread.join(60)


def unique_group() -> str:
    return f"group-{uuid.uuid4().hex[:12]}"


def produce(
    bootstrap: str, topic: str, count: int, *, partition: int | None = None, value: bytes = b"v"
) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5})
    failures: list[Any] = []

    def report(error: Any, _: Any) -> None:
        if error is not None:
            failures.append(error)

    where = -1 if partition is None else partition  # -1: by the key
    for number in range(count):
        key = str(number).encode()
        producer.produce(topic, value, key=key, partition=where, on_delivery=report)
        producer.poll(0)
    assert producer.flush(60) == 0
    assert not failures


def committed(bootstrap: str, group: str, topic: str) -> Mapping[int, int]:
    """Committed offset per partition, as the broker tells an outsider."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    asked = [ConsumerGroupTopicPartitions(group)]
    found = admin.list_consumer_group_offsets(asked)[group].result(30)
    return {p.partition: p.offset for p in found.topic_partitions if p.topic == topic}


def commit_as_outsider(bootstrap: str, group: str, offsets: Sequence[TopicPartition]) -> None:
    """Set a group's offsets, metadata and all, while it has no members."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.commit(offsets=list(offsets), asynchronous=False)
    consumer.close()


def ends(bootstrap: str, topic: str, partitions: int) -> dict[int, int]:
    """The offset after the last record of each partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": unique_group()})
    found = {
        number: consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=30)[1]
        for number in range(partitions)
    }
    consumer.close()
    return found


def sleeping(seconds: float) -> Callable[[Delivery], Task]:
    def work(delivery: Delivery) -> Task:
        yield Sleep(seconds)

    return work


def publishing(topic: str) -> Callable[[Delivery], Task]:
    def work(delivery: Delivery) -> Task:
        yield Publish(Message(topic, delivery.key, delivery.value))

    return work
