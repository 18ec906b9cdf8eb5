"""A Kafka consumer whose ``poll`` follows a script of the test's, in one thread."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition

TOPIC = "events"


@dataclass
class FakeRecord:
    """Answers like the client's message."""

    offset_: int
    partition_: int = 0
    value_: bytes | None = b"value"
    key_: bytes | None = b"key"
    headers_: list[tuple[str, bytes | None]] | None = None
    error_: KafkaError | None = None

    def topic(self) -> str:
        return TOPIC

    def partition(self) -> int:
        return self.partition_

    def offset(self) -> int:
        return self.offset_

    def timestamp(self) -> tuple[int, int]:
        return 1, 1_700_000_000_000 + self.offset_

    def key(self) -> bytes | None:
        return self.key_

    def value(self) -> bytes | None:
        return self.value_

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return self.headers_

    def error(self) -> KafkaError | None:
        return self.error_


Script = Generator[FakeRecord | None, None, None]


@dataclass
class FakeConsumer:
    """Each ``poll`` takes the next item of ``script``: a record, or None for "nothing yet". When
    the script has ended, ``on_script_end`` is called. A record of a paused partition waits.

    ``store``: (offset, metadata) per partition, as the broker holds it.
    """

    config: dict[str, Any] = field(default_factory=dict)
    script: Script | None = None
    on_script_end: Callable[[], None] = lambda: None
    store: dict[int, tuple[int, str]] = field(default_factory=dict)
    marks: dict[int, tuple[int, int]] = field(default_factory=dict)
    owned: set[int] = field(default_factory=set)
    is_paused: set[int] = field(default_factory=set)
    calls: list[tuple[str, Any]] = field(default_factory=list)
    commit_error: KafkaError | None = None
    answers_commits: bool = True
    committed_error: KafkaError | None = None
    metadata_limit: int = 4096
    closed: bool = False
    _held: FakeRecord | None = None
    _answers: list[tuple[KafkaError | None, list[TopicPartition]]] = field(default_factory=list)
    _callbacks: dict[str, Any] = field(default_factory=dict)

    # -- what the script does ----------------------------------------------------------------

    def rebalance(self, kind: str, partitions: Iterable[int]) -> None:
        """Call the worker's ``on_assign``, ``on_revoke`` or ``on_lost``."""
        self._callbacks[f"on_{kind}"](self, [TopicPartition(TOPIC, p) for p in partitions])

    # -- the client's interface ----------------------------------------------------------------

    def subscribe(self, topics: list[str], **callbacks: Any) -> None:
        assert topics == [TOPIC]
        self._callbacks = callbacks

    def poll(self, timeout: float) -> FakeRecord | None:
        while self._answers:
            error, offsets = self._answers.pop(0)
            self.config["on_commit"](error, offsets)
        if self.script is None:
            return None
        try:
            record = self._held if self._held is not None else next(self.script)
        except StopIteration:
            self.script = None
            self.on_script_end()
            return None
        self._held = None
        if record is not None and record.partition_ in self.is_paused:
            record, self._held = None, record
        return record

    def assignment(self) -> list[TopicPartition]:
        return [TopicPartition(TOPIC, p) for p in sorted(self.owned)]

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.calls.append(("assign", [(p.partition, p.offset) for p in partitions]))
        self.owned = {p.partition for p in partitions}

    def unassign(self) -> None:
        self.calls.append(("unassign", None))
        self.owned = set()

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        self.calls.append(("incremental_assign", [(p.partition, p.offset) for p in partitions]))
        self.owned |= {p.partition for p in partitions}

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        self.calls.append(("incremental_unassign", [p.partition for p in partitions]))
        self.owned -= {p.partition for p in partitions}

    def pause(self, partitions: list[TopicPartition]) -> None:
        self.calls.append(("pause", sorted(p.partition for p in partitions)))
        self.is_paused |= {p.partition for p in partitions}

    def resume(self, partitions: list[TopicPartition]) -> None:
        self.calls.append(("resume", sorted(p.partition for p in partitions)))
        self.is_paused -= {p.partition for p in partitions}

    def seek(self, partition: TopicPartition) -> None:
        self.calls.append(("seek", (partition.partition, partition.offset)))

    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        if self.committed_error is not None:
            raise KafkaException(self.committed_error)
        return [
            TopicPartition(TOPIC, p.partition, *self.store.get(p.partition, (-1001,)))
            if p.partition not in self.store
            else TopicPartition(
                TOPIC,
                p.partition,
                self.store[p.partition][0],
                metadata=self.store[p.partition][1],
            )
            for p in partitions
        ]

    def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float = -1, cached: bool = False
    ) -> tuple[int, int]:
        return self.marks.get(partition.partition, (0, 0))

    def store_offsets(self, offsets: list[TopicPartition]) -> None:
        if any(p.partition not in self.owned for p in offsets):
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG))

    def commit(self, offsets: list[TopicPartition], asynchronous: bool) -> None:
        assert asynchronous, "a synchronous commit has no time-out"
        self.calls.append(("commit", [(p.partition, p.offset) for p in offsets]))
        error = self.commit_error
        if any(len(p.metadata or "") > self.metadata_limit for p in offsets):
            error = KafkaError(KafkaError.OFFSET_METADATA_TOO_LARGE)
        if error is None:
            for p in offsets:
                self.store[p.partition] = (p.offset, p.metadata or "")
        if self.answers_commits:
            self._answers.append((error, offsets))

    def close(self) -> None:
        if self.owned:
            self.rebalance("revoke", set(self.owned))
        self.closed = True

    # -- what the test asks ----------------------------------------------------------------------

    def called(self, name: str) -> list[Any]:
        return [argument for call, argument in self.calls if call == name]
