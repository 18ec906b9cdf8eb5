"""What the runtime tells about itself. The application turns it into metrics and log lines.

Hooks are called on the control thread and must neither block nor raise.
"""

from __future__ import annotations

from typing import Literal, Protocol

from consumers.runtime.offset_metadata import MetadataVerdict
from consumers.runtime.offsets import Partition, Skip

Activity = Literal["poll", "tasks", "wait", "commit", "rebalance", "upkeep"]
"""What the control loop spends time on. The seconds of all of them add up to its wall time:
``poll`` taking records and starting their tasks, ``tasks`` running task code, ``wait`` nothing to
do, ``commit`` sending commits, ``rebalance`` inside the callbacks, ``upkeep`` everything else."""

WatchdogStep = Literal["seek", "reassign", "exit"]

PauseReason = Literal["window", "in_flight", "application"]


class Observer(Protocol):
    """Hooks; `NullObserver` does nothing in each."""

    def partition_assigned(self, partition: Partition, epoch: int, offset: int) -> None:
        """Owned from ``offset`` on."""

    def offsets_restored(self, partition: Partition, count: int, verdict: MetadataVerdict) -> None:
        """What the commit's metadata said at the assignment; anything but ``restored`` and
        ``empty`` was ignored."""

    def partition_revoked(self, partition: Partition, unfinished: int, seconds: float) -> None:
        """Given up after a drain; ``unfinished`` > 0: "revoked with work" whose calls did not
        return within the deadline."""

    def partition_lost(self, partition: Partition, unfinished: int) -> None:
        """Taken away without notice; nothing was committed."""

    def unknown_partition_revoked(self, partition: Partition) -> None:
        """The group took what we did not own. Harmless."""

    def paused(self, partition: Partition, reason: PauseReason) -> None:
        """The partition delivers nothing until `resumed`. Called again when the reason changes."""

    def resumed(self, partition: Partition) -> None: ...

    def delivered(self, partition: Partition) -> None:
        """A record became a task."""

    def skipped(self, partition: Partition, reason: Skip) -> None:
        """A record was not processed: done before, or not ours (any more)."""

    def redelivered_in_flight(self, partition: Partition) -> None:
        """An offset arrived again while its task ran: that task was cancelled and replaced."""

    def settled(self, partition: Partition) -> None:
        """An event is done."""

    def stale_completion(self, partition: Partition) -> None:
        """A task ended for a delivery that no longer counts."""

    def task_failed(self, partition: Partition, error: BaseException, stale: bool) -> None:
        """A task raised. ``stale``: after its partition had gone, so nothing follows from it."""

    def committed(self, partition: Partition, offset: int) -> None:
        """Acknowledged by the broker."""

    def commit_failed(self, code: str) -> None:
        """A commit was refused (it is sent again) or fenced. Normal during rebalances."""

    def commit_metadata_dropped(self, partition: Partition) -> None:
        """Done offsets did not fit; the commit went out without them."""

    def client_error(self, code: str) -> None:
        """The client reports trouble that it deals with itself, e.g. ``_ALL_BROKERS_DOWN``."""

    def publish_refused(self, topic: str, code: str) -> None:
        """A record that a task waits for was not acknowledged; the task decides."""

    def send_failed(self, topic: str, code: str) -> None:
        """A fire-and-forget record was lost."""

    def watchdog_step(self, partition: Partition, step: WatchdogStep) -> None:
        """A partition with lag did not move."""

    def loop_activity(self, activity: Activity, seconds: float) -> None:
        """Time spent since the last call for this activity; flushed about once a second."""

    def stopping(self, reason: str) -> None:
        """Shutdown begins: a signal, or what went wrong."""

    def uncommitted(self, partition: Partition, committed: int | None, pending: int) -> None:
        """At the end of a shutdown: this much is left to the next owner."""


class NullObserver:
    """Ignores everything. Subclass it to hear only some hooks."""

    def partition_assigned(self, partition: Partition, epoch: int, offset: int) -> None:
        pass

    def offsets_restored(self, partition: Partition, count: int, verdict: MetadataVerdict) -> None:
        pass

    def partition_revoked(self, partition: Partition, unfinished: int, seconds: float) -> None:
        pass

    def partition_lost(self, partition: Partition, unfinished: int) -> None:
        pass

    def unknown_partition_revoked(self, partition: Partition) -> None:
        pass

    def paused(self, partition: Partition, reason: PauseReason) -> None:
        pass

    def resumed(self, partition: Partition) -> None:
        pass

    def delivered(self, partition: Partition) -> None:
        pass

    def skipped(self, partition: Partition, reason: Skip) -> None:
        pass

    def redelivered_in_flight(self, partition: Partition) -> None:
        pass

    def settled(self, partition: Partition) -> None:
        pass

    def stale_completion(self, partition: Partition) -> None:
        pass

    def task_failed(self, partition: Partition, error: BaseException, stale: bool) -> None:
        pass

    def committed(self, partition: Partition, offset: int) -> None:
        pass

    def commit_failed(self, code: str) -> None:
        pass

    def commit_metadata_dropped(self, partition: Partition) -> None:
        pass

    def client_error(self, code: str) -> None:
        pass

    def publish_refused(self, topic: str, code: str) -> None:
        pass

    def send_failed(self, topic: str, code: str) -> None:
        pass

    def watchdog_step(self, partition: Partition, step: WatchdogStep) -> None:
        pass

    def loop_activity(self, activity: Activity, seconds: float) -> None:
        pass

    def stopping(self, reason: str) -> None:
        pass

    def uncommitted(self, partition: Partition, committed: int | None, pending: int) -> None:
        pass
