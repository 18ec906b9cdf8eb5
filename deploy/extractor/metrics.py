"""Every metric of the service, in one place; served as `/metrics`."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_JOB_BUCKETS = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class Metrics:
    """A registry of its own, so that several services can live in one test process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.submits = Counter(
            "extractor_submits_total",
            "Submits by outcome: accepted, repeated (idempotency key known), or the error code",
            ["outcome"],
            registry=self.registry,
        )
        self.input_bytes = Counter(
            "extractor_input_bytes_total", "PDF bytes accepted", registry=self.registry
        )
        self.queued = Gauge("extractor_jobs_queued", "Jobs waiting", registry=self.registry)
        self.running = Gauge("extractor_jobs_running", "Jobs running", registry=self.registry)
        self.receiving = Gauge(
            "extractor_uploads_in_progress", "Uploads under way", registry=self.registry
        )
        self.finished = Counter(
            "extractor_jobs_finished_total",
            "Jobs by outcome: completed, deleted, or the error code",
            ["outcome"],
            registry=self.registry,
        )
        self.queue_seconds = Histogram(
            "extractor_queue_seconds",
            "From acceptance to the start of work",
            buckets=_JOB_BUCKETS,
            registry=self.registry,
        )
        self.job_seconds = Histogram(
            "extractor_job_seconds",
            "Work on one job, without waiting",
            ["outcome"],
            buckets=_JOB_BUCKETS,
            registry=self.registry,
        )
        self.pages = Counter(
            "extractor_pages_total", "Pages of completed jobs", registry=self.registry
        )
        self.images = Counter("extractor_images_total", "Images extracted", registry=self.registry)
        self.output_bytes = Counter(
            "extractor_output_bytes_total", "Image bytes written", registry=self.registry
        )
        self.worker_starts = Counter(
            "extractor_worker_starts_total",
            "Worker processes started",
            registry=self.registry,
        )
        self.worker_ends = Counter(
            "extractor_worker_ends_total",
            "Worker processes ended, by reason: planned, timeout, memory, crashed, deleted,"
            " start_failed",
            ["reason"],
            registry=self.registry,
        )
        self.files_served = Counter(
            "extractor_files_served_total", "File downloads started", registry=self.registry
        )
        self.jobs_removed = Counter(
            "extractor_jobs_removed_total",
            "Jobs whose files were removed, by reason: request, age, orphan",
            ["reason"],
            registry=self.registry,
        )
