"""What the runtime tells about itself, as metrics and log lines."""

from __future__ import annotations

import logging

from consumers.metrics import Metrics
from consumers.runtime.observer import Activity, NullObserver, PauseReason, WatchdogStep
from consumers.runtime.offset_metadata import MetadataVerdict
from consumers.runtime.offsets import Partition, Skip

log = logging.getLogger("bundles.kafka")


class RuntimeObserver(NullObserver):
    """Called on the control thread."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._assigned: set[Partition] = set()
        self._paused: set[Partition] = set()

    @property
    def assigned(self) -> int:
        return len(self._assigned)

    def partition_assigned(self, partition: Partition, epoch: int, offset: int) -> None:
        self._assigned.add(partition)
        self._metrics.rebalances.labels("assigned").inc()
        self._count()
        log.info("assigned %s/%s from offset %s", *partition, offset)

    def partition_revoked(self, partition: Partition, unfinished: int, seconds: float) -> None:
        self._gone(partition, "revoked")
        self._metrics.revoked_with_work.inc(unfinished)
        log.info("revoked %s/%s with %d unfinished", *partition, unfinished)

    def partition_lost(self, partition: Partition, unfinished: int) -> None:
        self._gone(partition, "lost")
        self._metrics.revoked_with_work.inc(unfinished)
        log.warning("lost %s/%s with %d unfinished", *partition, unfinished)

    def _gone(self, partition: Partition, kind: str) -> None:
        self._assigned.discard(partition)
        self._paused.discard(partition)
        self._metrics.rebalances.labels(kind).inc()
        self._count()

    def _count(self) -> None:
        self._metrics.partitions_assigned.set(len(self._assigned))
        self._metrics.partitions_paused.set(len(self._paused))

    def offsets_restored(self, partition: Partition, count: int, verdict: MetadataVerdict) -> None:
        if verdict not in ("restored", "empty"):
            self._metrics.metadata_ignored.labels(verdict).inc()
            log.warning("commit metadata of %s/%s ignored: %s", *partition, verdict)

    def paused(self, partition: Partition, reason: PauseReason) -> None:
        self._paused.add(partition)
        self._count()

    def resumed(self, partition: Partition) -> None:
        self._paused.discard(partition)
        self._count()

    def stale_completion(self, partition: Partition) -> None:
        self._metrics.stale_completions.inc()

    def skipped(self, partition: Partition, reason: Skip) -> None:
        log.debug("skipped a record of %s/%s: %s", *partition, reason)

    def committed(self, partition: Partition, offset: int) -> None:
        self._metrics.commits.inc()

    def commit_failed(self, code: str) -> None:
        self._metrics.commit_failures.labels(code).inc()
        log.warning("a commit was refused: %s", code)

    def commit_metadata_dropped(self, partition: Partition) -> None:
        self._metrics.metadata_ignored.labels("too_large").inc()

    def client_error(self, code: str) -> None:
        self._metrics.client_errors.labels(code).inc()
        log.warning("the Kafka client reports %s", code)

    def send_failed(self, topic: str, code: str) -> None:
        self._metrics.ledger_lost.labels(code).inc()

    def watchdog_step(self, partition: Partition, step: WatchdogStep) -> None:
        self._metrics.watchdog_steps.labels(step).inc()
        log.error("%s/%s has lag and does not move: %s", *partition, step)

    def loop_activity(self, activity: Activity, seconds: float) -> None:
        self._metrics.loop_seconds.labels(activity).inc(seconds)

    def stopping(self, reason: str) -> None:
        log.info("stopping: %s", reason)

    def uncommitted(self, partition: Partition, committed: int | None, pending: int) -> None:
        log.warning(
            "left to the next owner: %s/%s committed=%s pending=%d", *partition, committed, pending
        )
