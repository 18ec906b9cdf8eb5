"""What one document carries through its stages: ids, time, attempts, and how it is reported."""

from __future__ import annotations

import copy
from typing import Any

from consumers.extraction.journal import Journal
from consumers.extraction.live import LiveJob
from consumers.extraction.origin import Origin
from consumers.extraction.timeline import During, Timeline
from consumers.metrics import Metrics, exemplar
from consumers.runtime.clock import Clock
from schemas.reasons import Reason


class DocumentFailed(Exception):
    """The document ends as a dead letter. ``code`` says more than the reason, bounded."""

    def __init__(self, reason: Reason, stage: str, code: str | None = None) -> None:
        super().__init__(f"{reason.value} in {stage}")
        self.reason = reason
        self.stage = stage
        self.code = code


class Scope:
    """One document of one event."""

    def __init__(
        self,
        *,
        clock: Clock,
        metrics: Metrics,
        journal: Journal,
        origin: Origin,
        bundle_id: str | None,
        document_id: str | None,
        traceparent: str | None = None,
    ) -> None:
        waited = 0.0
        if origin.timestamp_ms is not None:
            waited = max(0.0, clock.time() - origin.timestamp_ms / 1000)
        self.clock = clock
        self.metrics = metrics
        self.origin = origin
        self.bundle_id = bundle_id
        self.document_id = document_id
        self.traceparent = traceparent
        self.extraction_id: str | None = None
        self.timeline = Timeline(clock, waited_s=waited)
        self.first_failed_at: float | None = None
        self.attempts = 0
        """Failed attempts of any call, over the whole document."""
        self.stage_name = "accept"
        self.jobs: dict[int, LiveJob] = {}
        """Jobs that run, by shard."""
        self._journal = journal
        # None in the whole itself: a cycle would keep every document until the collector comes by.
        self._whole: Scope | None = None

    def branch(self) -> Scope:
        """For a part of the document that is worked on beside others: a stage and a timeline of its
        own, which would otherwise be torn between them. Failed attempts count for the whole."""
        part = copy.copy(self)
        part.timeline = Timeline(self.clock, waited_s=0.0)
        part._whole = self._whole or self
        return part

    def note(self, event: str, *, stage: str | None = None, **fields: Any) -> None:
        """One ledger and log line. ``fields`` are those of `LedgerRecord`; never content."""
        self._journal.write(
            self.extraction_id or self.bundle_id or "",
            {
                "bundle_id": self.bundle_id,
                "document_id": self.document_id,
                "extraction_id": self.extraction_id,
                "stage": stage or self.stage_name,
                "event": event,
                "topic": self.origin.topic,
                "partition": self.origin.partition,
                "offset": self.origin.offset,
                "traceparent": self.traceparent,
                **fields,
            },
        )

    def failed_attempt(self, code: str, attempt: int, **fields: Any) -> None:
        whole = self._whole or self
        whole.attempts += 1
        if whole.first_failed_at is None:
            whole.first_failed_at = self.clock.time()
        self.note("attempt_failed", code=code, attempt=attempt, **fields)

    def stage(self, name: str, cause: str | None = None) -> Stage:
        """Counts and times a stage; the time counts as ``cause`` (None: the stage's own)."""
        return Stage(self, name, self.timeline.during(cause or name))


class Stage:
    """A `with` block of `Scope.stage`."""

    __slots__ = ("_before", "_during", "_name", "_scope", "_started")

    def __init__(self, scope: Scope, name: str, during: During) -> None:
        self._scope = scope
        self._name = name
        self._during = during

    def __enter__(self) -> None:
        scope, name = self._scope, self._name
        self._before, scope.stage_name = scope.stage_name, name
        self._during.__enter__()
        self._started = scope.timeline.since
        scope.metrics.stage_attempts.labels(name).inc()
        scope.metrics.stage_in_progress.labels(name).inc()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        scope, name, metrics = self._scope, self._name, self._scope.metrics
        self._during.__exit__()
        if kind is None:
            outcome = "succeeded"
        else:
            outcome = "cancelled" if issubclass(kind, GeneratorExit) else "failed"
        metrics.stage_in_progress.labels(name).dec()
        metrics.stage_outcomes.labels(name, outcome).inc()
        metrics.stage_duration.labels(name).observe(
            scope.timeline.since - self._started, exemplar(scope.extraction_id)
        )
        scope.stage_name = self._before
