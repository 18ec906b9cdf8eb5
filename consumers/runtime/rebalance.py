"""What happens when partitions come and go.

The client calls these from inside ``poll``, on the control thread. They never raise (the client
would carry on with the assignment all the same), never poll and never commit synchronously.

Giving up: drain first (so what was just paid for gets recorded), fence second, then the last
commit; all inside one deadline. Losing: somebody else may be at work already, so no drain, no
commit. Taking over: read the committed offsets ourselves, because the ledger needs the metadata
beside them and because the start of a new group must be a decision, not a fallback.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from consumers.runtime.client import watermarks
from consumers.runtime.clock import Clock
from consumers.runtime.committer import Committer
from consumers.runtime.exits import Exit
from consumers.runtime.observer import Observer
from consumers.runtime.offsets import OffsetLedger, Partition
from consumers.runtime.scheduler import Scheduler
from consumers.runtime.settings import RuntimeSettings

Fail = Callable[[Exit, str], None]
Callback = Callable[[Consumer, list[TopicPartition]], None]


@dataclass(frozen=True, slots=True)
class _Start:
    offset: int
    committed: bool
    metadata: str | None


T = TypeVar("T")

_FINAL = {KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED}


def _committed(
    consumer: Consumer, asked: list[TopicPartition], timeout: float
) -> list[TopicPartition]:
    answers = consumer.committed(asked, timeout=timeout)
    for answer in answers:
        if answer.error is not None:
            raise KafkaException(answer.error)
    return answers


def _watermarks(consumer: Consumer, partition: Partition, timeout: float) -> tuple[int, int]:
    marks = watermarks(consumer, partition, timeout=timeout)
    if marks is None:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
    return marks


class Rebalance:
    """The three callbacks for ``subscribe``."""

    def __init__(
        self,
        *,
        settings: RuntimeSettings,
        ledger: OffsetLedger,
        scheduler: Scheduler,
        committer: Committer,
        observer: Observer,
        clock: Clock,
        fail: Fail,
        beat: Callable[[], None],
        entered: Callable[[], None],
        left: Callable[[], None],
        assigned: Callable[[Sequence[Partition]], None],
        gone: Callable[[Sequence[Partition]], None],
    ) -> None:
        """
        :param fail: ends the worker with a code and a sentence.
        :param beat: the control loop's sign of life; a drain may take longer than its limit.
        :param entered, left: called as a callback begins and ends.
        :param assigned: called with new partitions: pause or resume each of them explicitly.
        :param gone: called with partitions that are not owned any more.
        """
        self._settings = settings
        self._ledger = ledger
        self._scheduler = scheduler
        self._committer = committer
        self._observer = observer
        self._clock = clock
        self._fail = fail
        self._beat = beat
        self._entered = entered
        self._left = left
        self._assigned = assigned
        self._gone = gone
        self.count = 0
        """Assignments so far."""
        self.drained = False
        """Set by the shutdown, which has waited already: don't wait for the same calls again."""

    def on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._guarded(self._assign, consumer, partitions)

    def on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._guarded(self._revoke, consumer, partitions)

    def on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._guarded(self._lose, consumer, partitions)

    def _guarded(
        self, callback: Callback, consumer: Consumer, partitions: list[TopicPartition]
    ) -> None:
        self._beat()
        self._entered()
        try:
            callback(consumer, partitions)
        except KafkaException as raised:
            self._fail(
                Exit.ASSIGN_FAILED,
                f"partitions could not be taken over: {raised.args[0].name()}; restart to retry",
            )
        except Exception as raised:
            traceback.print_exc()
            self._fail(Exit.LOOP_FAILED, f"a rebalance callback raised {type(raised).__name__}")
        self._left()
        self._beat()

    # -- taking over ---------------------------------------------------------------------------

    def _assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        deadline = self._clock.monotonic() + self._settings.assign_deadline
        starts = self._starts(consumer, partitions, deadline) if partitions else {}
        wanted = []
        for partition, start in starts.items():
            found = self._ledger.assigned(
                partition, start.offset, committed=start.committed, metadata=start.metadata
            )
            self._observer.partition_assigned(partition, found.epoch, start.offset)
            self._observer.offsets_restored(partition, found.restored, found.metadata)
            wanted.append(TopicPartition(partition.topic, partition.number, start.offset))
        if self._settings.incremental:
            consumer.incremental_assign(wanted)
        else:
            consumer.assign(wanted)
        self.count += 1
        self._assigned(list(starts))

    def _starts(
        self, consumer: Consumer, partitions: list[TopicPartition], deadline: float
    ) -> dict[Partition, _Start]:
        asked = [TopicPartition(p.topic, p.partition) for p in partitions]
        starts = {}
        for found in self._patiently(deadline, partial(_committed, consumer, asked)):
            partition = Partition(found.topic, found.partition)
            if found.offset >= 0:
                starts[partition] = _Start(found.offset, True, found.metadata)
            else:
                low, high = self._patiently(deadline, partial(_watermarks, consumer, partition))
                offset = low if self._settings.start_from == "earliest" else high
                starts[partition] = _Start(offset, False, None)
        return starts

    def _patiently(self, deadline: float, ask: Callable[[float], T]) -> T:
        """``ask(timeout)`` until it answers: a coordinator that has just come back needs its time.
        Asks in slices, so that the loop shows its life and other tasks go on.

        :raises KafkaException: the last one, at the deadline; or one that time does not heal.
        """
        timeout = 1.0
        while True:
            try:
                return ask(min(timeout, self._settings.loop_stuck_after / 3))
            except KafkaException as raised:
                if raised.args[0].code() in _FINAL or self._clock.monotonic() >= deadline:
                    raise
                self._observer.client_error(raised.args[0].name())
            timeout = min(2 * timeout, 5.0)
            self._beat()
            self._scheduler.step(0.05)

    # -- giving up -----------------------------------------------------------------------------

    def _revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        started = self._clock.monotonic()
        owned = self._known(partitions)
        tags = {partition: (partition, self._ledger.epoch(partition)) for partition in owned}
        seconds = 0.0 if self.drained else self._settings.revoke_deadline
        left = self._scheduler.drain(list(tags.values()), started + seconds, self._beat)
        unfinished = {p: self._scheduler.count(tag) for p, tag in tags.items() if tag in left}
        finals = [self._ledger.revoked(partition) for partition in owned]  # the fence
        for tag in left:
            self._scheduler.cancel(tag)
        self._committer.send(consumer, [commit for commit in finals if commit is not None])
        self._release(consumer, partitions)
        took = self._clock.monotonic() - started
        for partition in owned:
            self._observer.partition_revoked(partition, unfinished.get(partition, 0), took)
        self._gone(owned)

    def _lose(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.forget(self._known(partitions))
        self._release(consumer, partitions)

    def forget(self, partitions: Sequence[Partition]) -> None:
        """``partitions`` are not ours any more: end their tasks, commit nothing."""
        for partition in partitions:
            tag = (partition, self._ledger.epoch(partition))
            unfinished = self._scheduler.count(tag)
            self._ledger.lost(partition)
            self._scheduler.cancel(tag)
            self._observer.partition_lost(partition, unfinished)
        self._gone(partitions)

    def _known(self, partitions: list[TopicPartition]) -> list[Partition]:
        owned = []
        for given in partitions:
            partition = Partition(given.topic, given.partition)
            if self._ledger.epoch(partition) is None:
                self._observer.unknown_partition_revoked(partition)
            else:
                owned.append(partition)
        return owned

    def _release(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if self._settings.incremental:
            consumer.incremental_unassign(partitions)
        else:
            consumer.unassign()
