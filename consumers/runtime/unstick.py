"""Gets a partition moving again that is assigned, not paused, has lag and stands still.

The known causes are inside clients (a fetcher that gives up after broker time-outs, a partition
left paused by a rebalance), so the steps are those that reset the client's state, from cheap to
drastic: seek, assign anew, end the process.
"""

from __future__ import annotations

from collections.abc import Collection

from confluent_kafka import Consumer, KafkaException, TopicPartition

from consumers.runtime.client import watermarks
from consumers.runtime.exits import Exit
from consumers.runtime.intake import Pauses
from consumers.runtime.observer import Observer
from consumers.runtime.offsets import OffsetLedger, Partition
from consumers.runtime.progress import ProgressWatch
from consumers.runtime.rebalance import Fail
from consumers.runtime.settings import RuntimeSettings

# For asking a broker whether an idle partition really has nothing to fetch (seconds). Blocks the
# control loop, so it is short, and at most one partition is asked per look.
_ASK_TIMEOUT = 0.5
# After a broker did not answer (seconds): in an outage every partition is idle.
_ASK_AGAIN = 15.0


class Unsticker:
    """Looks at every owned partition each time `look` is called, on the control thread."""

    def __init__(
        self,
        settings: RuntimeSettings,
        ledger: OffsetLedger,
        pauses: Pauses,
        observer: Observer,
        fail: Fail,
    ) -> None:
        self._settings = settings
        self._ledger = ledger
        self._pauses = pauses
        self._observer = observer
        self._fail = fail
        self._watch = ProgressWatch(settings.partition_stuck_after)
        self._end_seen: dict[Partition, int] = {}
        self._ask_from = 0.0

    def end_seen(self, partition: Partition, offset: int) -> None:
        """The client says that it has read up to ``offset``, the end. Past the last record there
        may be transaction markers, which are never delivered and look like lag."""
        self._end_seen[partition] = offset

    def position(self, partition: Partition) -> int:
        """The next offset that could be delivered."""
        view = self._ledger.view(partition)
        return max(view.delivered if view is not None else 0, self._end_seen.get(partition, 0))

    def lag(self, consumer: Consumer, partition: Partition) -> int | None:
        """Offsets not read yet, by what the client last heard; None when it heard nothing."""
        marks = watermarks(consumer, partition)
        return max(0, marks[1] - self.position(partition)) if marks is not None else None

    def look(self, consumer: Consumer, now: float) -> None:
        """Take the next step for a partition that is stuck."""
        for partition in self._ledger.owned():
            epoch = self._ledger.epoch(partition)
            assert epoch is not None
            if not self._watch.idle(
                partition,
                epoch=epoch,
                position=self.position(partition),
                paused=self._pauses.reason(partition) is not None,
                now=now,
            ):
                continue
            if now < self._ask_from:
                return
            # What the client last heard may be as stuck as the partition: ask the broker.
            marks = watermarks(consumer, partition, timeout=_ASK_TIMEOUT)
            if marks is None:
                self._watch.unknown(partition, now)
                self._ask_from = now + _ASK_AGAIN
            elif marks[1] <= self.position(partition):
                self._watch.healthy(partition, now)
            else:
                self._step(consumer, partition, now)
            return

    def _step(self, consumer: Consumer, partition: Partition, now: float) -> None:
        step = self._watch.stuck(partition, now)
        self._observer.watchdog_step(partition, step)
        target = TopicPartition(partition.topic, partition.number, self.position(partition))
        try:
            if step == "seek":
                consumer.seek(target)
            elif step == "reassign":
                self._reassign(consumer, partition, target)
        except KafkaException as raised:
            self._observer.client_error(raised.args[0].name())
        if step == "exit":
            self._fail(
                Exit.PARTITION_STUCK,
                f"{partition} has records to read but does not move, not even after it was sought "
                "and assigned again",
            )

    def _reassign(self, consumer: Consumer, partition: Partition, target: TopicPartition) -> None:
        # Within the same ownership: the ledger and the tasks know nothing of it.
        if self._settings.incremental:
            consumer.incremental_unassign([target])
            consumer.incremental_assign([target])
        else:
            consumer.assign(
                [
                    TopicPartition(owned.topic, owned.number, self.position(owned))
                    for owned in self._ledger.owned()
                ]
            )
        self._pauses.assigned(consumer, self._ledger.owned())

    def gone(self, partitions: Collection[Partition]) -> None:
        """They are not owned any more."""
        self._watch.forget(partitions)
        for partition in partitions:
            self._end_seen.pop(partition, None)
