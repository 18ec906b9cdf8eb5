"""Whether a partition may deliver: back-pressure, with hysteresis because pausing is not free."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from confluent_kafka import Consumer, TopicPartition

from consumers.runtime.observer import Observer, PauseReason
from consumers.runtime.offsets import OffsetLedger, Partition
from consumers.runtime.settings import RuntimeSettings


class Intake:
    """Decides; pure. The control loop carries it out.

    Three reasons, strongest first: the application said no (breaker open, disk full, a storm of
    dead letters), too many events in flight, the partition's own window is full.
    """

    def __init__(self, in_flight_high: int, in_flight_low: int, window_low: float) -> None:
        """Pause at ``in_flight_high`` or a full window (1.0), resume at or below the lows."""
        self._high = in_flight_high
        self._low = in_flight_low
        self._window_low = window_low
        self._overloaded = False
        self._full: set[Partition] = set()

    def common_reason(self, in_flight: int, allowed: bool) -> PauseReason | None:
        """Why nothing at all may be delivered; None when it may."""
        self._overloaded = in_flight > self._low if self._overloaded else in_flight >= self._high
        if not allowed:
            return "application"
        return "in_flight" if self._overloaded else None

    def window_full(self, partition: Partition, fullness: float) -> bool:
        """``partition`` ran too far ahead of its committed offset."""
        if fullness >= 1.0:
            self._full.add(partition)
        elif fullness <= self._window_low:
            self._full.discard(partition)
        return partition in self._full

    def forget(self, partitions: Collection[Partition]) -> None:
        """They are not owned any more."""
        self._full.difference_update(partitions)


class Pauses:
    """Carries the decisions out: the client's pause state of every owned partition.

    Pause state outlives a rebalance inside the client while new partitions arrive un-paused, so
    whatever was assigned is paused or resumed explicitly, whatever it was before.
    """

    def __init__(self, settings: RuntimeSettings, ledger: OffsetLedger, observer: Observer) -> None:
        self._intake = Intake(settings.in_flight_high, settings.in_flight_low, settings.window_low)
        self._ledger = ledger
        self._observer = observer
        self._paused: dict[Partition, PauseReason] = {}
        self.common: PauseReason | None = None
        """Why nothing at all is delivered."""

    def reason(self, partition: Partition) -> PauseReason | None:
        """Why ``partition`` is paused; None when it is not."""
        return self._paused.get(partition)

    def _wanted(self, partition: Partition) -> PauseReason | None:
        full = self._intake.window_full(partition, self._ledger.fullness(partition))
        return self.common or ("window" if full else None)

    def decide(self, in_flight: int, allowed: bool) -> None:
        """Decide again whether anything may be delivered; `update` or `assigned` carries it out."""
        self.common = self._intake.common_reason(in_flight, allowed)

    def update(self, consumer: Consumer) -> None:
        """Pause or resume the partitions whose decision has changed."""
        pause, resume = [], []
        for partition in self._ledger.owned():
            wanted, now = self._wanted(partition), self._paused.get(partition)
            if wanted == now:
                continue
            if wanted is None:
                del self._paused[partition]
                resume.append(partition)
            else:
                self._paused[partition] = wanted
                if now is None:
                    pause.append(partition)
                else:
                    self._observer.paused(partition, wanted)
        self._carry_out(consumer, pause, resume)

    def assigned(self, consumer: Consumer, partitions: Sequence[Partition]) -> None:
        """Set the client's state of new partitions explicitly."""
        pause, resume = [], []
        for partition in partitions:
            wanted = self._wanted(partition)
            if wanted is None:
                self._paused.pop(partition, None)
                resume.append(partition)
            else:
                self._paused[partition] = wanted
                pause.append(partition)
        self._carry_out(consumer, pause, resume)

    def _carry_out(
        self, consumer: Consumer, pause: list[Partition], resume: list[Partition]
    ) -> None:
        if pause:
            consumer.pause([TopicPartition(*partition) for partition in pause])
            for partition in pause:
                self._observer.paused(partition, self._paused[partition])
        if resume:
            consumer.resume([TopicPartition(*partition) for partition in resume])
            for partition in resume:
                self._observer.resumed(partition)

    def gone(self, partitions: Collection[Partition]) -> None:
        """They are not owned any more."""
        self._intake.forget(partitions)
        for partition in partitions:
            self._paused.pop(partition, None)
