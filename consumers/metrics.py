"""The metrics contract: every metric of the worker, once. Dashboards, rules, docs and code use
only what is here (tests hold them to it); `deploy/observability/METRICS.md` is written from here.

Rules: one prefix, base units, ``_total`` on counters; labels are bounded (never an event id, an
object key, a job id or a text); limits are exported as gauges beside what they limit; label sets
that are known are there from the start, so that the first failure already makes a rate.
"""

from __future__ import annotations

import platform
import time
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import product
from typing import Any, Self, get_args

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.samples import Exemplar

from consumers.runtime.observer import Activity, PauseReason, WatchdogStep
from consumers.runtime.offset_metadata import MetadataVerdict
from consumers.stages import CAUSES, STAGES
from schemas.problems import ProblemCode
from schemas.reasons import FROM_THE_SERVICE, RESUMABLE, Reason

disable_created_metrics()  # type: ignore[no-untyped-call]

WAITS = (0.05, 0.25, 1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600)
CALLS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
LAGS = (0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 300)
BYTES = tuple(float(16 * 1024 * 4**n) for n in range(9))
MAX_EXEMPLAR_CHARACTERS = 128
"""Of all names and values together, by OpenMetrics. The client raises beyond it."""

SERVICE_FAULTS = (FROM_THE_SERVICE | RESUMABLE | {Reason.STORE_CONFLICT}) - {
    Reason.SOURCE_MISSING,
    Reason.SOURCE_DENIED,
}
"""Reasons that spend the error budget. The others (not a PDF, encrypted, a bad event, no source)
lie with whoever sent the event, and no worker can do better."""

PROVIDER_OUTCOMES = (
    "ok",
    "throttled",
    "failed",
    "truncated",
    "unknown",
    "not_found",
    "expired",
    "refused",
    "unsafe",
    "unavailable",
    "unauthorized",
    "out_of_credit",
    "error",
)
PROVIDER_CALLS = ("submit", "find", "poll", "images")
PROVIDER_OPERATIONS = (*PROVIDER_CALLS, "download", "forget")
STORE_CALLS = (
    "record_load",
    "record_create",
    "record_update",
    "manifest_find",
    "manifest_write",
    "image_write",
    "claim_check",
)
STORE_OPERATIONS = ("get", "head", "download", "put_if_absent", "replace_if_match")
STORE_TROUBLE = ("throttled", "unavailable", "access_denied")
RETRY_REASONS = ("attempt", "systemic", "ambiguous", "not_found", "another_job")
WRITE_OUTCOMES = ("created", "identical", "conflict", "ambiguous_resolved", "ambiguous")
REPLACE_OUTCOMES = ("replaced", "lost_race", "ambiguous")
COMMIT_CODES = (
    "REBALANCE_IN_PROGRESS",
    "ILLEGAL_GENERATION",
    "UNKNOWN_MEMBER_ID",
    "NOT_COORDINATOR",
    "_TIMED_OUT",
)
PUBLISH_CODES = (
    "MSG_SIZE_TOO_LARGE",
    "UNKNOWN_TOPIC_OR_PART",
    "TOPIC_AUTHORIZATION_FAILED",
    "NOT_ENOUGH_REPLICAS",
    "_MSG_TIMED_OUT",
    "_QUEUE_FULL",
)
"""What brokers and librdkafka answer when a write fails; others join when they come up."""

COUNTS = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 64.0, 128.0)


@dataclass(frozen=True, slots=True)
class Spec:
    """One metric as documented: its full name, type, unit, label names and meaning."""

    name: str
    kind: str
    unit: str
    labels: tuple[str, ...]
    meaning: str


PROCESS = (
    Spec("process_cpu_seconds_total", "counter", "seconds", (), "Processor time used."),
    Spec("process_resident_memory_bytes", "gauge", "bytes", (), "Memory in use (RSS)."),
    Spec("process_virtual_memory_bytes", "gauge", "bytes", (), "Address space in use."),
    Spec("process_open_fds", "gauge", "files", (), "Open file descriptors."),
    Spec("process_max_fds", "gauge", "files", (), "Limit of open file descriptors."),
    Spec("process_start_time_seconds", "gauge", "seconds", (), "When it started, Unix time."),
)
"""What the client library tells of any process; Linux only."""


class _Found(MetricWrapperBase):
    """Finds a child again without a lock: a document touches half a hundred of them."""

    _found: dict[tuple[Any, ...], Self] | None = None

    def labels(self, *values: Any, **_: Any) -> Self:
        found = self._found
        if found is None:
            found = self._found = {}
        child = found.get(values)
        if child is None:
            child = found[values] = super().labels(*values)
        return child


class _Counter(_Found, Counter):
    """A document makes two dozen steps, each without the library's check for labels."""

    def inc(self, amount: float = 1, exemplar: dict[str, str] | None = None) -> None:
        if exemplar or amount < 0:
            super().inc(amount, exemplar)
        else:
            self._value.inc(amount)


class _Gauge(_Found, Gauge):
    def inc(self, amount: float = 1) -> None:
        self._value.inc(amount)

    def dec(self, amount: float = 1) -> None:
        self._value.inc(-amount)


class _Histogram(_Found, Histogram):
    """A document makes two dozen observations, too."""

    def observe(self, amount: float, exemplar: dict[str, str] | None = None) -> None:
        """As the library's, without its checks (of labels and of an exemplar that `exemplar` made
        right) and with its search for the bucket by halves. A test compares the two."""
        self._sum.inc(amount)
        bucket = self._buckets[bisect_left(self._upper_bounds, amount)]
        bucket.inc(1)
        if exemplar:
            bucket.set_exemplar(Exemplar(exemplar, amount, time.time()))


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
        self.documents_by_cause = gauge(
            "documents_by_cause",
            "documents",
            "Documents in progress, by what holds them now.",
            "cause",
        )
        self.dead_letters = count(
            "dead_letters",
            "records",
            "Dead letters acknowledged; fault: service (spends the error budget) or sender.",
            "reason",
            "fault",
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
            "provider_calls",
            "calls",
            "Calls to a service; outcome says what the answer meant.",
            "provider",
            "operation",
            "outcome",
        )
        self.provider_call_seconds = hist(
            "provider_call_seconds", "seconds", "Time of one call.", CALLS, "provider", "operation"
        )
        self.provider_throttles = count(
            "provider_throttles",
            "calls",
            "Calls that were told to wait (429, 503), also by the store.",
            "dependency",
            "operation",
        )
        self.provider_throttled_seconds = count(
            "provider_throttled_seconds", "seconds", "Waits that were asked for.", "dependency"
        )
        self.gate_seconds = gauge(
            "gate_seconds", "seconds", "What a call would wait at the gate now.", "dependency"
        )
        self.provider_unknown_status = count(
            "provider_unknown_status",
            "answers",
            "Answers with a status we do not know.",
            "provider",
        )
        self.provider_problems = count(
            "provider_problems",
            "problems",
            "Images and pages that a service could not give: of a written manifest, or of a "
            "document that ended for it.",
            "provider",
            "code",
        )
        self.jobs_in_flight = gauge(
            "provider_jobs_in_flight", "jobs", "Jobs submitted and not finished.", "provider"
        )
        self.job_slots = gauge("provider_job_slots", "jobs", "Limit of job slots.", "provider")
        self.job_slots_used = gauge(
            "provider_job_slots_used", "jobs", "Job slots taken, submits included.", "provider"
        )
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
        self.forget_retries = count(
            "provider_forget_retries", "calls", "Deletions of jobs to be tried again.", "provider"
        )
        self.forget_failures = count(
            "provider_forget_failures",
            "jobs",
            "Jobs whose deletion was given up: their data is left at the service.",
            "provider",
        )
        self.retries = count("retries", "calls", "Calls made again.", "dependency", "reason")
        self.attempts_exhausted = count(
            "attempts_exhausted", "calls", "Calls given up after every attempt.", "dependency"
        )
        self.retry_budget_left = gauge(
            "retry_budget_left", "calls", "Retries that may still be made now.", "dependency"
        )
        self.retry_budget_limit = gauge(
            "retry_budget_limit", "calls", "Size of the retry budget.", "dependency"
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
            "Writes under a condition; conflict: other bytes stood there; ambiguous: answer lost.",
            "object",
            "outcome",
        )

        # Local
        self.document_places = gauge(
            "document_places", "documents", "Limit of documents with local files."
        )
        self.document_places_used = gauge(
            "document_places_used", "documents", "Documents with local files."
        )
        self.document_places_waiting = gauge(
            "document_places_waiting", "documents", "Documents waiting for such a place."
        )
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
            "Age, by its timestamp, of the oldest record taken in and not committed. Where records "
            "wait and none is taken in: since that was first seen. 0 with no lag.",
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
        self.client_errors = count(
            "kafka_client_errors", "times", "Trouble that the Kafka client reports.", "code"
        )
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
        build.labels(version_of_this(), platform.python_version()).set(1)
        ProcessCollector(registry=self.registry)
        self.specs.extend(PROCESS)
        self._initialise()

    def _initialise(self) -> None:
        """What is known before anything was configured."""
        zero(self.stage_attempts, STAGES)
        zero(self.stage_in_progress, STAGES)
        zero(self.stage_outcomes, STAGES, ("succeeded", "failed", "cancelled"))
        zero(self.stage_duration, STAGES)
        zero(self.cause, CAUSES)
        zero(self.documents_by_cause, CAUSES)
        zero(self.documents, ("extracted", "dead_lettered"))
        zero(self.end_to_end, ("extracted", "dead_lettered"))
        zero(self.events_finished, ("extracted", "dead_lettered", "rejected"))
        for reason in Reason:
            self.dead_letters.labels(reason.value, fault_of(reason))
        zero(self.dead_letter_failures, PUBLISH_CODES)
        zero(self.ledger_lost, PUBLISH_CODES)
        zero(self.store_operations, STORE_OPERATIONS, ("ok", *STORE_TROUBLE))
        zero(self.store_seconds, STORE_OPERATIONS)
        zero(self.bytes, ("fetched", "submitted", "downloaded", "stored"))
        zero(self.conditional_writes, ("manifest", "image", "job_record"), WRITE_OUTCOMES)
        zero(self.conditional_writes, ("job_record",), REPLACE_OUTCOMES)
        kills = (Reason.PARSE_TIMEOUT, Reason.PARSE_MEMORY, Reason.PARSE_CRASHED)
        zero(self.sandbox_kills, [reason.value for reason in kills])
        zero(self.intake_paused, get_args(PauseReason))
        zero(self.rebalances, ("assigned", "revoked", "lost"))
        zero(self.commit_failures, COMMIT_CODES)
        zero(self.client_errors, ("_ALL_BROKERS_DOWN", "_TRANSPORT"))
        ignored = set(MetadataVerdict) - {MetadataVerdict.EMPTY, MetadataVerdict.RESTORED}
        zero(self.metadata_ignored, sorted({"too_large", *ignored}))
        zero(self.watchdog_steps, get_args(WatchdogStep))
        zero(self.loop_seconds, get_args(Activity))

    def know_provider(self, name: str) -> None:
        """Its series start at zero, so that the first job already makes a rate."""
        zero(self.provider_calls, (name,), PROVIDER_OPERATIONS, PROVIDER_OUTCOMES)
        zero(self.provider_call_seconds, (name,), PROVIDER_OPERATIONS)
        zero(self.submits, (name,), ("first", "again", "further"))
        zero(self.provider_problems, (name,), ProblemCode)
        for metric in (
            self.provider_run,
            self.poll_lag,
            self.provider_unknown_status,
            self.jobs_in_flight,
            self.job_slots,
            self.job_slots_used,
            self.job_waiting,
            self.jobs_resumed,
            self.duplicate_submissions,
            self.polls_per_job,
            self.forget_retries,
            self.forget_failures,
        ):
            zero(metric, (name,))

    def know_dependency(self, name: str, operations: Iterable[str]) -> None:
        """``operations``: what may be throttled there."""
        zero(self.provider_throttles, (name,), operations)
        zero(self.retries, (name,), RETRY_REASONS)
        for metric in (
            self.provider_throttled_seconds,
            self.attempts_exhausted,
            self.retry_budget_left,
            self.retry_budget_limit,
            self.breaker_open,
            self.breaker_opens,
            self.gate_seconds,
        ):
            zero(metric, (name,))

    def know_topics(self, *topics: str) -> None:
        zero(self.publish_failures, topics, PUBLISH_CODES)

    def _counter(self, name: str, unit: str, meaning: str, *labels: str) -> Counter:
        self._add(f"bundles_{name}_total", "counter", unit, labels, meaning)
        return _Counter(f"bundles_{name}", meaning, labels, registry=self.registry)

    def _gauge(self, name: str, unit: str, meaning: str, *labels: str) -> Gauge:
        self._add(f"bundles_{name}", "gauge", unit, labels, meaning)
        return _Gauge(f"bundles_{name}", meaning, labels, registry=self.registry)

    def _histogram(
        self, name: str, unit: str, meaning: str, buckets: Sequence[float], *labels: str
    ) -> Histogram:
        self._add(f"bundles_{name}", "histogram", unit, labels, meaning)
        return _Histogram(
            f"bundles_{name}", meaning, labels, registry=self.registry, buckets=tuple(buckets)
        )

    def _add(self, name: str, kind: str, unit: str, labels: tuple[str, ...], meaning: str) -> None:
        self.specs.append(Spec(name, kind, unit, labels, meaning))


def zero(metric: Counter | Gauge | Histogram, *values: Iterable[str]) -> None:
    """Makes a series for every combination of the label values."""
    for combination in product(*values):
        metric.labels(*map(str, combination))


def fault_of(reason: Reason) -> str:
    return "service" if reason in SERVICE_FAULTS else "sender"


def exemplar(extraction_id: str | None) -> dict[str, str] | None:
    """What leads from a series to `bundles trace`. None where it would not be allowed: a metric
    must never be what fails a document."""
    if not extraction_id or len("extraction_id") + len(extraction_id) > MAX_EXEMPLAR_CHARACTERS:
        return None
    return {"extraction_id": extraction_id}


def version_of_this() -> str:
    try:
        return version("bundle-extractor")
    except PackageNotFoundError:
        return "unknown"
