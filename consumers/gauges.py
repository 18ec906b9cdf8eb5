"""Gauges that are cheaper to set for a scrape than to keep up to date."""

from __future__ import annotations

import threading
from typing import get_args

from prometheus_client import Gauge

from consumers.metrics import Metrics
from consumers.runtime.observer import PauseReason
from consumers.status_report import LimitRow, Report


class Gauges:
    """`update` may be called from several threads: scrapes can overlap."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._lock = threading.Lock()
        self._partitions: set[tuple[str, str]] = set()

    def update(self, report: Report, *, now: float, loop_age: float) -> None:
        """``report`` stands still when the control loop hangs; ages go on until ``now`` (Unix)."""
        with self._lock:
            self._update(report, max(0.0, now - report.taken_at), loop_age)

    def _update(self, report: Report, since: float, loop_age: float) -> None:
        metrics = self._metrics
        metrics.poll_age.set(loop_age)
        for cause in report.causes:
            metrics.documents_by_cause.labels(cause.cause).set(cause.documents)
        for dependency in report.dependencies:
            name = dependency.name
            metrics.breaker_open.labels(name).set(dependency.breaker != "closed")
            metrics.gate_seconds.labels(name).set(max(0.0, dependency.gate_seconds - since))
            metrics.retry_budget_left.labels(name).set(dependency.budget_left)
            metrics.retry_budget_limit.labels(name).set(dependency.budget_limit)
        for pool in report.pools:
            metrics.pool_threads.labels(pool.name).set(pool.threads)
            metrics.pool_queued.labels(pool.name).set(pool.queued)
            metrics.pool_running.labels(pool.name).set(pool.running)
        for limit in report.limits:
            self._limit(limit)
        metrics.storm.set(report.storm)
        paused = {partition.paused for partition in report.partitions}
        for reason in get_args(PauseReason):
            metrics.intake_paused.labels(reason).set(reason in paused)
        self._update_partitions(report, since)

    def _limit(self, limit: LimitRow) -> None:
        metrics, name = self._metrics, limit.name
        gauges: tuple[Gauge, Gauge, Gauge | None]
        match limit.kind:
            case "events":
                gauges = (metrics.events_in_flight, metrics.events_in_flight_limit, None)
            case "documents":
                gauges = (
                    metrics.document_places_used,
                    metrics.document_places,
                    metrics.document_places_waiting,
                )
            case "jobs":
                gauges = (
                    metrics.job_slots_used.labels(name),
                    metrics.job_slots.labels(name),
                    metrics.job_waiting.labels(name),
                )
            case "temp_bytes":
                gauges = (metrics.temp_bytes, metrics.temp_limit, None)
        used, most, waiting = gauges
        used.set(limit.used)
        most.set(limit.limit)
        if waiting is not None:
            waiting.set(limit.waiting or 0)

    def _update_partitions(self, report: Report, since: float) -> None:
        metrics, shown = self._metrics, set()
        oldest = 0.0
        for partition in report.partitions:
            labels = (partition.topic, str(partition.partition))
            shown.add(labels)
            if partition.lag_records is not None:
                metrics.lag.labels(*labels).set(partition.lag_records)
            age = partition.oldest_seconds + since if partition.oldest_seconds else 0.0
            metrics.lag_seconds.labels(*labels).set(age)
            oldest = max(oldest, age)
        for topic, number in self._partitions - shown:
            for gauge in (metrics.lag, metrics.lag_seconds):
                gauge.remove_by_labels({"topic": topic, "partition": number})
        self._partitions = shown
        metrics.oldest_uncommitted.set(oldest)
        taken = [p.in_flight_seconds + since for p in report.partitions if p.in_flight]
        metrics.oldest_in_flight.set(max(taken, default=0.0))
        fullness = [p.window_fullness for p in report.partitions]
        metrics.window_fullness.set(max(fullness, default=0.0))
