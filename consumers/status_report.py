"""What this worker owns and does now, as one value: the status page and the gauges are made of it.

`Reporter.take` runs on the control thread about once a second; `Reporter.latest` may be read from
any. Nothing in it is content: documents are known by their extraction id only.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from consumers.extraction.live import LiveJob
from consumers.extraction.scope import Scope
from consumers.extraction.services import Dependency, Services
from consumers.runtime.pools import PoolStats
from consumers.runtime.status import PartitionStatus, WorkerStatus
from consumers.stages import CAUSES

LimitKind = Literal["events", "documents", "jobs", "temp_bytes"]

DOCUMENTS_SHOWN = 100
"""The oldest ones; the counts are of all."""


@dataclass(frozen=True, slots=True)
class PartitionRow:
    topic: str
    partition: int
    lag_records: int | None
    """Log end minus committed; None until a watermark was heard."""
    oldest_seconds: float
    """Age of the oldest uncommitted record."""
    in_flight: int
    in_flight_seconds: float
    """Since the oldest of them was taken in."""
    done_ahead: int
    committed: int | None
    position: int
    window_fullness: float
    paused: str | None


@dataclass(frozen=True, slots=True)
class CauseRow:
    """Documents by what holds them now (`consumers.stages.CAUSES`)."""

    cause: str
    documents: int
    longest_seconds: float


@dataclass(frozen=True, slots=True)
class JobRow:
    provider: str
    state: str
    state_seconds: float
    polls: int
    next_poll_seconds: float | None


@dataclass(frozen=True, slots=True)
class JobStateRow:
    provider: str
    state: str
    jobs: int
    longest_seconds: float


@dataclass(frozen=True, slots=True)
class DocumentRow:
    extraction_id: str | None
    """None until the checksum is known."""
    stage: str
    cause: str
    cause_seconds: float
    age_seconds: float
    """Since the event's timestamp."""
    failed_attempts: int
    jobs: tuple[JobRow, ...]


@dataclass(frozen=True, slots=True)
class DependencyRow:
    name: str
    breaker: str
    failures: int
    """In a row."""
    open_seconds: float
    gate_seconds: float
    """What a call would wait now because the dependency asked for it."""
    throttles: int
    budget_left: float
    budget_limit: float


@dataclass(frozen=True, slots=True)
class LimitRow:
    """Something bounded: how much of it is taken, and how many wait for it. ``name``: the provider
    of ``jobs``."""

    kind: LimitKind
    name: str
    used: float
    limit: float
    waiting: int | None = None


@dataclass(frozen=True, slots=True)
class PoolRow:
    name: str
    threads: int
    running: int
    queued: int
    """In the pool, or for their bundle's turn to enter it."""
    oldest_seconds: float


@dataclass(frozen=True, slots=True)
class ReasonRow:
    reason: str
    dead_letters: int
    meaning: str


@dataclass(frozen=True, slots=True)
class DeadLetterRow:
    at: float
    """Unix seconds."""
    reason: str
    stage: str
    extraction_id: str | None


@dataclass(frozen=True, slots=True)
class Report:
    taken_at: float
    """Unix seconds."""
    worker: str
    host: str
    pid: int
    version: str
    python: str
    started_at: float
    state: str
    group: str
    intake_stopped: tuple[str, ...]
    """Why no events are taken in."""
    storm: bool
    """Dead letters are held back."""
    assignments: int
    events_in_flight: int
    documents_in_progress: int
    oldest_uncommitted_seconds: float
    partitions: tuple[PartitionRow, ...] = ()
    causes: tuple[CauseRow, ...] = ()
    job_states: tuple[JobStateRow, ...] = ()
    documents: tuple[DocumentRow, ...] = ()
    dependencies: tuple[DependencyRow, ...] = ()
    limits: tuple[LimitRow, ...] = ()
    pools: tuple[PoolRow, ...] = ()
    reasons: tuple[ReasonRow, ...] = ()
    dead_letters: tuple[DeadLetterRow, ...] = ()
    """The latest first."""


@dataclass
class LagClock:
    """Ages the oldest uncommitted record of each partition. Where records wait and none of them was
    taken in, their timestamps are not known here: counted from when that was first seen."""

    _waiting_since: dict[tuple[str, int], float] = field(default_factory=dict)

    def age(self, status: PartitionStatus, records: int | None, now: float) -> float:
        """Seconds; ``now`` is Unix time."""
        place = (status.topic, status.partition)
        taken = status.oldest_in_flight_timestamp_ms
        if taken is not None and taken > 0:
            self._waiting_since.pop(place, None)
            return max(0.0, now - taken / 1000)
        if status.in_flight:
            return status.oldest_in_flight_seconds
        if not records:
            self._waiting_since.pop(place, None)
            return 0.0
        return max(0.0, now - self._waiting_since.setdefault(place, now))

    def keep_only(self, places: set[tuple[str, int]]) -> None:
        """Forget partitions that have gone."""
        for place in self._waiting_since.keys() - places:
            del self._waiting_since[place]


class Reporter:
    def __init__(
        self,
        services: Services,
        *,
        version: str,
        group: str,
        in_flight_limit: int,
        temp_quota: int,
    ) -> None:
        self._services = services
        self._version = version
        self._group = group
        self._in_flight_limit = in_flight_limit
        self._temp_quota = temp_quota
        self._started_at = services.clock.time()
        self._lags = LagClock()
        self._latest: Report | None = None

    @property
    def latest(self) -> Report:
        assert self._latest is not None, "taken once before anybody can ask"
        return self._latest

    def take(
        self,
        status: WorkerStatus,
        pools: Mapping[str, PoolStats],
        intake_stopped: tuple[str, ...],
    ) -> Report:
        services = self._services
        now, monotonic = services.clock.time(), services.clock.monotonic()
        partitions = tuple(self._partition(p, now) for p in status.partitions)
        self._lags.keep_only({(p.topic, p.partition) for p in status.partitions})
        causes, job_states = self._states(monotonic)
        live = services.live
        self._latest = report = Report(
            taken_at=now,
            worker=services.worker_id,
            host=platform.node(),
            pid=os.getpid(),
            version=self._version,
            python=platform.python_version(),
            started_at=self._started_at,
            state=status.state,
            group=self._group,
            intake_stopped=intake_stopped,
            storm=services.storm.on,
            assignments=status.assignments,
            events_in_flight=status.in_flight,
            documents_in_progress=len(live),
            oldest_uncommitted_seconds=max((p.oldest_seconds for p in partitions), default=0.0),
            partitions=partitions,
            causes=causes,
            job_states=job_states,
            documents=tuple(_document(s, monotonic) for s in live.oldest(DOCUMENTS_SHOWN)),
            dependencies=tuple(_dependency(d, monotonic) for d in services.dependencies()),
            limits=self._limits(status),
            pools=tuple(self._pool(name, stats) for name, stats in sorted(pools.items())),
            reasons=tuple(
                ReasonRow(reason.value, count, reason.meaning)
                for reason, count in live.reasons.most_common()
            ),
            dead_letters=tuple(
                DeadLetterRow(d.at, d.reason.value, d.stage, d.extraction_id)
                for d in reversed(live.recent)
            ),
        )
        return report

    def _partition(self, status: PartitionStatus, now: float) -> PartitionRow:
        records = None
        if status.lag is not None:
            # What was delivered and is not committed is lag as well.
            undone = status.in_flight + status.done_ahead
            if status.committed is not None and status.committed >= 0:
                undone = max(0, status.position - status.committed)
            records = status.lag + undone
        return PartitionRow(
            topic=status.topic,
            partition=status.partition,
            lag_records=records,
            oldest_seconds=self._lags.age(status, records, now),
            in_flight=status.in_flight,
            in_flight_seconds=status.oldest_in_flight_seconds,
            done_ahead=status.done_ahead,
            committed=status.committed,
            position=status.position,
            window_fullness=status.window_fullness,
            paused=status.paused,
        )

    def _states(self, now: float) -> tuple[tuple[CauseRow, ...], tuple[JobStateRow, ...]]:
        documents = dict.fromkeys(CAUSES, 0)
        longest = dict.fromkeys(CAUSES, 0.0)
        jobs: dict[tuple[str, str], tuple[int, float]] = {}
        for scope in self._services.live:
            cause = scope.timeline.cause
            documents[cause] = documents.get(cause, 0) + 1
            longest[cause] = max(longest.get(cause, 0.0), now - scope.timeline.since)
            for job in scope.jobs.values():
                count, oldest = jobs.get((job.provider, job.state), (0, 0.0))
                jobs[job.provider, job.state] = (count + 1, max(oldest, _since(job, now)))
        return (
            tuple(CauseRow(cause, count, longest[cause]) for cause, count in documents.items()),
            tuple(JobStateRow(*key, *value) for key, value in sorted(jobs.items())),
        )

    def _pool(self, name: str, stats: PoolStats) -> PoolRow:
        waiting = self._services.call_places[name].waiting
        return PoolRow(
            name=name,
            threads=stats.threads,
            running=stats.in_progress,
            queued=stats.queued + waiting,
            oldest_seconds=stats.oldest_in_progress_seconds,
        )

    def _limits(self, status: WorkerStatus) -> tuple[LimitRow, ...]:
        services = self._services
        places = services.documents
        return (
            LimitRow("events", "", status.in_flight, self._in_flight_limit),
            LimitRow("documents", "", places.in_use, places.capacity, places.waiting),
            *(
                LimitRow("jobs", p.provider.name, p.slots.in_use, p.slots.capacity, p.slots.waiting)
                for p in services.providers.values()
            ),
            LimitRow("temp_bytes", "", services.workspace.used_bytes, self._temp_quota),
        )


def _document(scope: Scope, now: float) -> DocumentRow:
    timeline = scope.timeline
    return DocumentRow(
        extraction_id=scope.extraction_id,
        stage=scope.stage_name,
        cause=timeline.cause,
        cause_seconds=now - timeline.since,
        age_seconds=timeline.waited_s + now - timeline.started,
        failed_attempts=scope.attempts,
        jobs=tuple(
            JobRow(
                job.provider,
                job.state,
                _since(job, now),
                job.polls,
                None if job.next_poll_at is None else max(0.0, job.next_poll_at - now),
            )
            for _, job in sorted(scope.jobs.items())
        ),
    )


def _since(job: LiveJob, now: float) -> float:
    return 0.0 if job.since is None else now - job.since


def _dependency(dependency: Dependency, now: float) -> DependencyRow:
    breaker, gate, budget = dependency.breaker, dependency.gate, dependency.budget
    return DependencyRow(
        name=dependency.name,
        breaker=breaker.state(now).value,
        failures=breaker.failures,
        open_seconds=0.0 if breaker.opened_at is None else now - breaker.opened_at,
        gate_seconds=max(0.0, gate.open_at - now),
        throttles=gate.throttles,
        budget_left=max(0.0, budget.left),
        budget_limit=budget.capacity,
    )
