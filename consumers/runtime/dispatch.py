"""From a record to its task, and from the task's end to the ledger."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import cast

from confluent_kafka import Message as Record

from consumers.runtime.clock import Clock
from consumers.runtime.delivery import Delivery
from consumers.runtime.effects import Outcome, Task
from consumers.runtime.exits import Exit
from consumers.runtime.observer import Observer
from consumers.runtime.offsets import OffsetLedger, Partition, Skip, Ticket
from consumers.runtime.rebalance import Fail
from consumers.runtime.scheduler import Handle, Scheduler, TaskClosed

Handler = Callable[[Delivery], Task]
"""Makes the task that settles a record. When the task returns, the record is done."""

OnTaskError = Callable[[Delivery, BaseException], Task | None]
"""Decides about a task that raised: another task that settles the record in its place, or None to
end the worker (`Exit.TASK_FAILED`). A record is never passed over."""


@dataclass(slots=True)
class InFlight:
    """One event being worked on. ``started`` is monotonic seconds."""

    ticket: Ticket
    delivery: Delivery
    started: float
    handle: Handle | None = None
    replaced: bool = False
    """The application's replacement is running; if that raises too, the worker ends."""


def _unknown(_: Partition) -> int | None:
    return None


class Dispatcher:
    """All methods belong to the control thread."""

    def __init__(
        self,
        *,
        ledger: OffsetLedger,
        scheduler: Scheduler,
        handler: Handler,
        on_task_error: OnTaskError | None,
        observer: Observer,
        clock: Clock,
        fail: Fail,
        end_of: Callable[[Partition], int | None] = _unknown,
    ) -> None:
        """``end_of``: the end of a partition (highest offset + 1) as the client knows it."""
        self._ledger = ledger
        self._scheduler = scheduler
        self._handler = handler
        self._on_task_error = on_task_error
        self._observer = observer
        self._clock = clock
        self._fail = fail
        self._end_of = end_of
        self._end_at_first: dict[Partition, tuple[int, int | None]] = {}
        """(epoch, end of the partition when its first record of the epoch came)"""
        self._count = 0
        # Per partition and offset, oldest first.
        self._in_flight: dict[Partition, dict[int, InFlight]] = {}

    @property
    def in_flight(self) -> int:
        """Events whose task has not ended."""
        return self._count

    def of(self, partition: Partition) -> int:
        """Events of one partition in flight."""
        return len(self._in_flight.get(partition, ()))

    def oldest(self, partition: Partition) -> InFlight | None:
        """The event of ``partition`` that has been in flight longest."""
        return next(iter(self._in_flight.get(partition, {}).values()), None)

    def take(self, record: Record) -> Partition | None:
        """Start the task of ``record``; gives its partition unless the record was skipped."""
        topic, number, offset = _address(record)
        partition = Partition(topic, number)
        ticket = self._ledger.delivered(partition, offset)
        if isinstance(ticket, Skip):
            self._observer.skipped(partition, ticket)
            return None
        running = self._in_flight.get(partition, {}).get(offset)
        if running is not None and running.handle is not None:
            self._observer.redelivered_in_flight(partition)
            running.handle.cancel()
        delivery = Delivery(
            topic=topic,
            partition=number,
            offset=offset,
            timestamp_ms=record.timestamp()[1],
            key=_bytes(record.key()),
            value=_bytes(record.value()),
            headers=_headers(record),
            epoch=ticket.epoch,
            maybe_seen=self._maybe_seen(partition, ticket),
        )
        self._observer.delivered(partition)
        entry = InFlight(ticket, delivery, self._clock.monotonic())
        # A replaced delivery is a new one: it goes to the end of "oldest first".
        entries = self._in_flight.setdefault(partition, {})
        if entries.pop(offset, None) is None:
            self._count += 1
        entries[offset] = entry
        try:
            task = self._handler(delivery)
        except Exception as raised:
            self._failed(entry, raised)
        else:
            self._start(entry, task)
        return partition

    def _maybe_seen(self, partition: Partition, ticket: Ticket) -> bool:
        epoch, end = self._end_at_first.get(partition, (None, None))
        if epoch != ticket.epoch:
            end = self._end_of(partition)
            self._end_at_first[partition] = (ticket.epoch, end)
        return end is None or ticket.offset < end

    def _start(self, entry: InFlight, task: Task) -> None:
        tag = (entry.ticket.partition, entry.ticket.epoch)
        entry.handle = self._scheduler.start(task, partial(self._ended, entry), tag)

    def _ended(self, entry: InFlight, outcome: Outcome) -> None:
        partition = entry.ticket.partition
        if isinstance(outcome.error, TaskClosed):
            if self._stale(entry):
                self._observer.stale_completion(partition)
            self._remove(entry)
        elif outcome.error is not None:
            self._failed(entry, outcome.error)
        else:
            self._remove(entry)
            if self._ledger.done(entry.ticket):
                self._observer.settled(partition)
            else:
                self._observer.stale_completion(partition)

    def _failed(self, entry: InFlight, error: BaseException) -> None:
        partition = entry.ticket.partition
        stale = self._stale(entry)
        self._observer.task_failed(partition, error, stale)
        if stale:
            self._remove(entry)
            return
        replacement = None
        if self._on_task_error is not None and not entry.replaced:
            replacement = self._on_task_error(entry.delivery, error)
        if replacement is not None:
            entry.replaced = True
            self._start(entry, replacement)
            return
        self._remove(entry)
        self._fail(
            Exit.TASK_FAILED,
            f"the task of {partition}@{entry.ticket.offset} raised {type(error).__name__}, "
            "which nothing handles",
        )

    def _stale(self, entry: InFlight) -> bool:
        """Its partition has gone, or its offset was delivered again."""
        ticket = entry.ticket
        return self._ledger.epoch(ticket.partition) != ticket.epoch or not self._holds(entry)

    def _holds(self, entry: InFlight) -> bool:
        entries = self._in_flight.get(entry.ticket.partition, {})
        return entries.get(entry.ticket.offset) is entry

    def _remove(self, entry: InFlight) -> None:
        if self._holds(entry):
            entries = self._in_flight[entry.ticket.partition]
            del entries[entry.ticket.offset]
            self._count -= 1
            if not entries:
                del self._in_flight[entry.ticket.partition]


def _address(record: Record) -> tuple[str, int, int]:
    topic, number, offset = record.topic(), record.partition(), record.offset()
    if topic is None or number is None or offset is None:
        raise ValueError("the client handed over a record without an address")
    return topic, number, offset


def _headers(record: Record) -> list[tuple[str, bytes | None]]:
    headers = cast("list[tuple[str, str | bytes | None]] | None", record.headers())
    return [(name, _bytes(value)) for name, value in headers or []]


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
