"""What a worker is doing, as a value that any thread may read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from confluent_kafka import Consumer

from consumers.runtime.clock import Clock
from consumers.runtime.dispatch import Dispatcher
from consumers.runtime.intake import Pauses
from consumers.runtime.observer import PauseReason
from consumers.runtime.offsets import OffsetLedger, Partition
from consumers.runtime.pools import PoolStats
from consumers.runtime.unstick import Unsticker

State = Literal["starting", "running", "stopping", "stopped"]


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One owned partition."""

    topic: str
    partition: int
    epoch: int
    committed: int | None
    position: int
    """The highest offset delivered + 1."""
    lag: int | None
    """Records not yet delivered, by the last watermark heard; None when none was."""
    in_flight: int
    done_ahead: int
    """Done, but waiting for an earlier offset before they can be committed."""
    window_fullness: float
    oldest_in_flight_offset: int | None
    oldest_in_flight_seconds: float
    oldest_in_flight_timestamp_ms: int | None
    paused: PauseReason | None


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """Taken on the control thread about once a second, so it stands still when the loop hangs:
    compare ``taken_at`` or ask `Worker.loop_age`."""

    taken_at: float
    """Seconds since 1970."""
    state: State
    partitions: tuple[PartitionStatus, ...]
    in_flight: int
    sleeping: int
    """Tasks waiting for time."""
    publishing: int
    """Records whose acknowledgement is awaited."""
    commits_outstanding: int
    intake_stopped: PauseReason | None
    """Why nothing at all is delivered; a partition may have its own reason."""
    pools: Mapping[str, PoolStats]
    assignments: int


@dataclass(frozen=True, slots=True)
class PartitionReader:
    """Puts the status of partitions together, on the control thread."""

    ledger: OffsetLedger
    dispatcher: Dispatcher
    pauses: Pauses
    unsticker: Unsticker
    clock: Clock

    def read(self, consumer: Consumer | None) -> tuple[PartitionStatus, ...]:
        """All owned partitions; lag needs the ``consumer``."""
        return tuple(self._one(partition, consumer) for partition in self.ledger.owned())

    def _one(self, partition: Partition, consumer: Consumer | None) -> PartitionStatus:
        view = self.ledger.view(partition)
        assert view is not None
        oldest = self.dispatcher.oldest(partition)
        return PartitionStatus(
            topic=partition.topic,
            partition=partition.number,
            epoch=view.epoch,
            committed=view.committed,
            position=view.delivered,
            lag=self.unsticker.lag(consumer, partition) if consumer is not None else None,
            in_flight=view.pending,
            done_ahead=view.done_ahead,
            window_fullness=view.fullness,
            oldest_in_flight_offset=oldest.ticket.offset if oldest else None,
            oldest_in_flight_seconds=self.clock.monotonic() - oldest.started if oldest else 0.0,
            oldest_in_flight_timestamp_ms=oldest.delivery.timestamp_ms if oldest else None,
            paused=self.pauses.reason(partition),
        )
