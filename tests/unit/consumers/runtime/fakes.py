"""Stand-ins that the runtime's unit tests share."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from consumers.runtime.effects import Message, PublishRefused
from consumers.runtime.observer import NullObserver, PauseReason, WatchdogStep
from consumers.runtime.offset_metadata import MetadataVerdict
from consumers.runtime.offsets import Partition, Skip
from consumers.runtime.scheduler import Scheduler


class FakeClock:
    """Time moves only when the test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return 1_700_000_000.0 + self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class FakeDeliveries:
    """A publisher whose delivery reports come when the test calls ``deliver``."""

    sent: list[Message] = field(default_factory=list)
    waiting: list[Callable[[PublishRefused | None], None]] = field(default_factory=list)

    def publish(
        self, message: Message, on_delivery: Callable[[PublishRefused | None], None]
    ) -> None:
        self.sent.append(message)
        self.waiting.append(on_delivery)

    def poll(self) -> None:
        pass

    @property
    def outstanding(self) -> int:
        return 0

    def deliver(self, refused: PublishRefused | None = None) -> None:
        self.waiting.pop(0)(refused)


class Gate:
    """A pool call that says when it has started and ends when the test opens it."""

    def __init__(self, result: object = None) -> None:
        self.result = result
        self._started = threading.Event()
        self._open = threading.Event()

    def __call__(self) -> object:
        self._started.set()
        assert self._open.wait(30), "the test never opened the gate"
        return self.result

    @property
    def started(self) -> bool:
        return self._started.is_set()

    def wait_started(self) -> None:
        assert self._started.wait(30), "the call never ran"

    def open(self) -> None:
        self._open.set()


@dataclass
class Seen(NullObserver):
    """Everything a worker told its observer that tests ask about."""

    counts: Counter[str] = field(default_factory=Counter)
    commits: list[tuple[Partition, int]] = field(default_factory=list)
    commit_failures: Counter[str] = field(default_factory=Counter)
    client_errors: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    restored: list[tuple[Partition, int, MetadataVerdict]] = field(default_factory=list)
    steps: list[tuple[Partition, WatchdogStep]] = field(default_factory=list)
    revocations: list[tuple[Partition, int]] = field(default_factory=list)
    paused_now: dict[Partition, PauseReason] = field(default_factory=dict)
    leftovers: dict[Partition, tuple[int | None, int]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    errors: list[BaseException] = field(default_factory=list)

    def partition_assigned(self, partition: Partition, epoch: int, offset: int) -> None:
        self.counts["assigned"] += 1

    def offsets_restored(self, partition: Partition, count: int, verdict: MetadataVerdict) -> None:
        self.restored.append((partition, count, verdict))

    def partition_revoked(self, partition: Partition, unfinished: int, seconds: float) -> None:
        self.revocations.append((partition, unfinished))
        self.paused_now.pop(partition, None)

    def partition_lost(self, partition: Partition, unfinished: int) -> None:
        self.counts["lost"] += 1
        self.paused_now.pop(partition, None)

    def unknown_partition_revoked(self, partition: Partition) -> None:
        self.counts["unknown_revoked"] += 1

    def paused(self, partition: Partition, reason: PauseReason) -> None:
        self.counts["paused"] += 1
        self.paused_now[partition] = reason

    def resumed(self, partition: Partition) -> None:
        self.counts["resumed"] += 1
        self.paused_now.pop(partition, None)

    def delivered(self, partition: Partition) -> None:
        self.counts["delivered"] += 1

    def skipped(self, partition: Partition, reason: Skip) -> None:
        self.counts[f"skipped_{reason}"] += 1

    def redelivered_in_flight(self, partition: Partition) -> None:
        self.counts["redelivered_in_flight"] += 1

    def settled(self, partition: Partition) -> None:
        self.counts["settled"] += 1

    def stale_completion(self, partition: Partition) -> None:
        self.counts["stale"] += 1

    def task_failed(self, partition: Partition, error: BaseException, stale: bool) -> None:
        self.errors.append(error)

    def committed(self, partition: Partition, offset: int) -> None:
        self.commits.append((partition, offset))

    def commit_failed(self, code: str) -> None:
        self.commit_failures[code] += 1

    def commit_metadata_dropped(self, partition: Partition) -> None:
        self.counts["metadata_dropped"] += 1

    def client_error(self, code: str) -> None:
        self.client_errors[code] += 1

    def publish_refused(self, topic: str, code: str) -> None:
        self.refusals[code] += 1

    def send_failed(self, topic: str, code: str) -> None:
        self.counts["send_failed"] += 1

    def watchdog_step(self, partition: Partition, step: WatchdogStep) -> None:
        self.steps.append((partition, step))

    def loop_activity(self, activity: str, seconds: float) -> None:
        self.seconds[activity] = self.seconds.get(activity, 0.0) + seconds

    def uncommitted(self, partition: Partition, committed: int | None, pending: int) -> None:
        self.leftovers[partition] = (committed, pending)


def step_until(scheduler: Scheduler, condition: Callable[[], bool], steps: int = 2000) -> None:
    """Step until ``condition`` holds; a real pool thread may be involved, so each step may wait."""
    for _ in range(steps):
        if condition():
            return
        scheduler.step(0.01)
    raise AssertionError("the condition never came true")
