"""Sends commits and hears what became of them.

Never synchronously: a synchronous commit blocks for most of a minute when the coordinator is gone.
Every commit passes two fences: the ledger (it knows the epoch) and the client, whose
``store_offsets`` refuses a partition that it does not own. A broker would accept such a commit.
"""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from consumers.runtime.clock import Clock
from consumers.runtime.observer import Observer
from consumers.runtime.offsets import Commit, OffsetLedger, Partition

# A commit waits in the client while the coordinator is away; don't pile up more behind it. After
# this long (seconds) its answer is not waited for any more.
_ANSWER_WAIT = 60.0


class Committer:
    """All methods belong to the control thread; `on_commit` is the client's callback there."""

    def __init__(self, ledger: OffsetLedger, observer: Observer, clock: Clock) -> None:
        self._ledger = ledger
        self._observer = observer
        self._clock = clock
        self._outstanding = 0
        self._last_sent = 0.0
        self._acknowledged: dict[Partition, int] = {}

    @property
    def outstanding(self) -> int:
        """Requests whose answer has not come."""
        return self._outstanding

    def acknowledged(self, partition: Partition) -> int | None:
        """The last offset of ours that the broker took, whoever owns ``partition`` now."""
        return self._acknowledged.get(partition)

    def send_due(self, consumer: Consumer) -> None:
        """Commit what has changed, unless an earlier request is still on its way."""
        if self._outstanding and self._clock.monotonic() - self._last_sent < _ANSWER_WAIT:
            return
        self._outstanding = 0
        self.send(consumer, self._ledger.due())

    def send(self, consumer: Consumer, commits: Sequence[Commit]) -> None:
        """Send ``commits`` in one request. Never raises for what a commit may meet."""
        offsets = []
        for commit in commits:
            if commit.metadata_dropped:
                self._observer.commit_metadata_dropped(commit.partition)
            offset = TopicPartition(
                commit.partition.topic,
                commit.partition.number,
                commit.offset,
                metadata=commit.metadata,
            )
            try:
                consumer.store_offsets(offsets=[offset])
            except KafkaException as raised:
                self._observer.commit_failed(f"fenced:{raised.args[0].name()}")
                self._ledger.refused(commit.partition)
            else:
                offsets.append(offset)
        if not offsets:
            return
        try:
            consumer.commit(offsets=offsets, asynchronous=True)
        except KafkaException as raised:
            self._refused(raised.args[0], offsets)
        else:
            self._outstanding += 1
            self._last_sent = self._clock.monotonic()

    def on_commit(self, error: KafkaError | None, offsets: Sequence[TopicPartition]) -> None:
        """The answer to one request."""
        self._outstanding = max(0, self._outstanding - 1)
        failed: dict[str, list[TopicPartition]] = {}
        errors: dict[str, KafkaError] = {}
        for offset in offsets:
            problem = offset.error or error
            if problem is None:
                partition = Partition(offset.topic, offset.partition)
                self._acknowledged[partition] = offset.offset
                self._ledger.acknowledged(partition, offset.offset)
                self._observer.committed(partition, offset.offset)
            else:
                failed.setdefault(problem.name(), []).append(offset)
                errors[problem.name()] = problem
        for name, refused in failed.items():
            self._refused(errors[name], refused)

    def _refused(self, error: KafkaError, offsets: Sequence[TopicPartition]) -> None:
        self._observer.commit_failed(error.name())
        if error.code() == KafkaError.OFFSET_METADATA_TOO_LARGE:
            # The broker's limit is below ours. Offsets matter, metadata only saves work.
            self._ledger.metadata_limit = 0
        for offset in offsets:
            self._ledger.refused(Partition(offset.topic, offset.partition))
