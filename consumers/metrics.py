"""The metrics contract: every metric of the worker, once. Dashboards, rules, docs and code use
only what is here (tests hold them to it), and `bundles metrics` documents it from here.

Rules: one prefix, base units, ``_total`` on counters; labels are bounded (never an event id, an
object key, a job id or a text); limits are exported as gauges beside what they limit.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

from consumers.stages import CAUSES, STAGES

disable_created_metrics()  # type: ignore[no-untyped-call]

WAITS = (0.05, 0.25, 1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600)
CALLS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
LAGS = (0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 300)
BYTES = tuple(float(16 * 1024 * 4**n) for n in range(9))
COUNTS = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 64.0, 128.0)


@dataclass(frozen=True, slots=True)
class Spec:
    """One metric as documented: its full name, type, unit, label names and meaning."""

    name: str
    kind: str
    unit: str
    labels: tuple[str, ...]
    meaning: str


class Metrics:
    """All metrics, registered in one registry. Methods of prometheus_client's classes are
    thread-safe; label sets that are known are initialised to zero so that rates work at once."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry(auto_describe=True)
        self.specs: list[Spec] = []
        count, gauge, hist = self._counter, self._gauge, self._histogram

        # Flow
        self.events_received = count("events_received", "events", "Bundle events taken in.")
        self.events_finished = count(
            "events_finished", "events", "Events of which every document is terminal.", "outcome"
        )
        self.documents = count("documents", "documents", "Documents that ended.", "outcome")
        self.documents_in_progress = gauge(
            "documents_in_progress", "documents", "Documents between accept and their end."
        )
        self.dead_letters = count(
            "dead_letters", "records", "Dead letters acknowledged.", "reason", "stage"
        )
        self.dead_letter_failures = count(
            "dead_letter_publish_failures", "records", "Dead letters the broker refused.", "code"
        )
        self.publish_failures = count(
            "publish_failures", "records", "Records the broker refused; retried.", "topic", "code"
        )
        self.ledger_lost = count("ledger_lost", "records", "Ledger records given up.", "code")
        self.replays = count("replays", "events", "Events that came from a replay.")

        # Latency, split by cause; the causes of a document add up to its end-to-end time.
        self.queue_wait = hist(
            "queue_wait_seconds", "seconds", "From the event's timestamp to its first work.", WAITS
        )
        self.end_to_end = hist(
            "end_to_end_seconds",
            "seconds",
            "From the event's timestamp to the acknowledged result or dead letter.",
            WAITS,
            "outcome",
        )
        self.cause = hist(
            "cause_seconds", "seconds", "Share of a document's end-to-end time.", WAITS, "cause"
        )
        self.provider_run = hist(
            "provider_run_seconds", "seconds", "A job's time at the service.", WAITS, "provider"
        )
        self.poll_lag = hist(
            "poll_lag_seconds", "seconds", "Done at the service to seen here.", LAGS, "provider"
        )

        # Stages
        self.stage_attempts = count("stage_attempts", "attempts", "Stage entered.", "stage")
        self.stage_outcomes = count(
            "stage_outcomes", "attempts", "How a stage ended.", "stage", "outcome"
        )
        self.stage_duration = hist(
            "stage_duration_seconds", "seconds", "Time in a stage.", (*CALLS, 120, 300), "stage"
        )
        self.stage_in_progress = gauge(
            "stage_in_progress", "documents", "Documents in a stage.", "stage"
        )
        self.document_bytes = hist("document_bytes", "bytes", "Size of submitted documents.", BYTES)
        self.bytes = count("bytes", "bytes", "Bytes moved.", "direction")
        self.pages = count("pages", "pages", "Pages of documents with a manifest.")
        self.images = count("images", "images", "Images named by written manifests.")

        # Provider
        self.provider_calls = count(
            "provider_calls", "calls", "Calls to a service.", "provider", "operation", "outcome"
        )
        self.provider_call_seconds = hist(
            "provider_call_seconds", "seconds", "Time of one call.", CALLS, "provider", "operation"
        )
        self.provider_throttles = count(
            "provider_throttles", "calls", "Calls that were told to wait.", "provider", "operation"
        )
        self.provider_throttled_seconds = count(
            "provider_throttled_seconds", "seconds", "Waits asked for by a service.", "provider"
        )
        self.provider_unknown_status = count(
            "provider_unknown_status",
            "answers",
            "Answers with a status we do not know.",
            "provider",
        )
        self.jobs_in_flight = gauge(
            "provider_jobs_in_flight", "jobs", "Jobs submitted and not finished.", "provider"
        )
        self.job_slots = gauge("provider_job_slots", "jobs", "Limit of jobs in flight.", "provider")
        self.job_waiting = gauge(
            "provider_jobs_waiting", "jobs", "Documents waiting for a job slot.", "provider"
        )
        self.submits = count(
            "provider_submits",
            "jobs",
            "Submits answered with a job id; kind tells first, again (same key) and further jobs.",
            "provider",
            "kind",
        )
        self.jobs_resumed = count(
            "provider_jobs_resumed", "jobs", "Jobs re-attached by their record.", "provider"
        )
        self.duplicate_submissions = count(
            "provider_duplicate_submissions", "jobs", "A second job for one extraction.", "provider"
        )
        self.polls_per_job = hist(
            "provider_polls_per_job", "polls", "Polls that a finished job took.", COUNTS, "provider"
        )
        self.forget_failures = count(
            "provider_forget_failures", "jobs", "Deletions a service refused.", "provider"
        )
        self.retries = count("retries", "calls", "Calls made again.", "dependency", "verdict")
        self.attempts_exhausted = count(
            "attempts_exhausted", "calls", "Calls given up after every attempt.", "dependency"
        )
        self.retry_budget_left = gauge(
            "retry_budget_left", "calls", "Retries that may still be made now.", "provider"
        )
        self.retry_budget_limit = gauge(
            "retry_budget_limit", "calls", "Size of the retry budget.", "provider"
        )
        self.breaker_open = gauge(
            "breaker_open", "", "1 while a dependency's breaker is not closed.", "dependency"
        )
        self.breaker_opens = count("breaker_opens", "times", "Breaker opened.", "dependency")
        self.storm = gauge("dead_letter_storm", "", "1 while dead letters are held back.")
        self.intake_paused = gauge("intake_paused", "", "1 while no events are taken in.", "cause")

        # Store
        self.store_operations = count(
            "store_operations", "calls", "Calls to the object store.", "operation", "outcome"
        )
        self.store_seconds = hist(
            "store_operation_seconds", "seconds", "Time of one store call.", CALLS, "operation"
        )
        self.conditional_writes = count(
            "conditional_writes",
            "writes",
            "Outcome of writes under a condition: created, identical, conflict, resolved.",
            "object",
            "outcome",
        )

        # Local
        self.temp_bytes = gauge("temp_used_bytes", "bytes", "Temporary files now.")
        self.temp_limit = gauge("temp_limit_bytes", "bytes", "Quota of temporary files.")
        self.temp_swept = count("temp_swept_bytes", "bytes", "Left by dead workers and removed.")
        self.sandbox_kills = count(
            "sandbox_kills", "processes", "Parser processes killed or lost.", "reason"
        )
        self.pool_queued = gauge("pool_queued", "calls", "Calls waiting for a thread.", "pool")
        self.pool_running = gauge("pool_running", "calls", "Calls in a thread.", "pool")
        self.pool_threads = gauge("pool_threads", "threads", "Size of a pool.", "pool")

        # Kafka
        self.partitions_assigned = gauge("partitions_assigned", "partitions", "Owned partitions.")
        self.partitions_paused = gauge("partitions_paused", "partitions", "Owned and paused.")
        self.lag = gauge(
            "consumer_lag_records", "records", "Log end minus committed.", "topic", "partition"
        )
        self.lag_seconds = gauge(
            "consumer_lag_seconds",
            "seconds",
            "Age of the oldest uncommitted record.",
            "topic",
            "partition",
        )
        self.oldest_uncommitted = gauge(
            "oldest_uncommitted_seconds", "seconds", "Largest consumer_lag_seconds."
        )
        self.oldest_in_flight = gauge(
            "oldest_inflight_seconds",
            "seconds",
            "Time since the oldest running event was taken in.",
        )
        self.window_fullness = gauge(
            "window_fullness_ratio", "ratio", "Fullest window of offsets beyond the committed one."
        )
        self.events_in_flight = gauge("events_in_flight", "events", "Events taken in, not done.")
        self.events_in_flight_limit = gauge(
            "events_in_flight_limit", "events", "Where intake pauses."
        )
        self.rebalances = count("rebalances", "times", "Assignments changed.", "kind")
        self.revoked_with_work = count(
            "revoked_with_work", "events", "Events running when their partition left."
        )
        self.stale_completions = count(
            "stale_completions", "events", "Completions fenced off by their epoch."
        )
        self.commits = count("commits", "commits", "Commits acknowledged.")
        self.commit_failures = count("commit_failures", "commits", "Commits refused.", "code")
        self.metadata_ignored = count(
            "commit_metadata_ignored", "times", "Foreign or damaged commit metadata.", "cause"
        )
        self.watchdog_steps = count("watchdog_steps", "times", "Steps against a stall.", "step")
        self.loop_seconds = count(
            "loop_seconds", "seconds", "Where the control thread's time went.", "activity"
        )
        self.poll_age = gauge(
            "loop_heartbeat_age_seconds", "seconds", "Since the control loop last went round."
        )
        self.last_success = gauge(
            "last_success_timestamp_seconds", "seconds", "When a document last got its result."
        )

        build = gauge("build_info", "", "Always 1.", "version", "python")
        build.labels(_version(), platform.python_version()).set(1)
        for stage in STAGES:
            self.stage_attempts.labels(stage)
            self.stage_in_progress.labels(stage)
            for outcome in ("succeeded", "failed", "cancelled"):
                self.stage_outcomes.labels(stage, outcome)
        for cause in CAUSES:
            self.cause.labels(cause)
        for outcome in ("extracted", "dead_lettered"):
            self.documents.labels(outcome)
            self.end_to_end.labels(outcome)

    def _counter(self, name: str, unit: str, meaning: str, *labels: str) -> Counter:
        self._add(f"bundles_{name}_total", "counter", unit, labels, meaning)
        return Counter(f"bundles_{name}", meaning, labels, registry=self.registry)

    def _gauge(self, name: str, unit: str, meaning: str, *labels: str) -> Gauge:
        self._add(f"bundles_{name}", "gauge", unit, labels, meaning)
        return Gauge(f"bundles_{name}", meaning, labels, registry=self.registry)

    def _histogram(
        self, name: str, unit: str, meaning: str, buckets: Sequence[float], *labels: str
    ) -> Histogram:
        self._add(f"bundles_{name}", "histogram", unit, labels, meaning)
        return Histogram(
            f"bundles_{name}", meaning, labels, registry=self.registry, buckets=tuple(buckets)
        )

    def _add(self, name: str, kind: str, unit: str, labels: tuple[str, ...], meaning: str) -> None:
        self.specs.append(Spec(name, kind, unit, labels, meaning))


def _version() -> str:
    try:
        return version("bundle-extractor")
    except PackageNotFoundError:
        return "unknown"
