"""Each stage."""

from __future__ import annotations

from consumers.stages import STAGES
from deploy.observability.panels import Dashboard, Panel, Query, Row
from deploy.observability.queries import (
    JOB,
    KAFKA_STORAGE,
    OVERVIEW,
    PIPELINE,
    PROVIDER,
    by_label,
    gauge,
    quantiles,
    rate,
)


def _stage(stage: str) -> Row:
    only = f'stage="{stage}"'
    return Row(
        f"Stage: {stage.replace('_', ' ')}",
        [
            Panel(
                f"{stage}: how it ends",
                "Entered, and how it ended, per second. cancelled: the partition left, or a stop.",
                "ops",
                [
                    Query(rate("bundles_stage_attempts_total", "", only), "entered"),
                    Query(rate("bundles_stage_outcomes_total", "outcome", only), "{{outcome}}"),
                ],
                height=7,
            ),
            Panel(
                f"{stage}: duration",
                "Time in the stage, with its waits.",
                "s",
                quantiles("bundles_stage_duration_seconds", 0.5, 0.95, 0.99, labels=only),
                height=7,
            ),
            Panel(
                f"{stage}: in progress",
                "Documents in the stage now.",
                "none",
                [
                    Query(
                        gauge("bundles_stage_in_progress", "instance", labels=only), "{{instance}}"
                    )
                ],
                height=7,
            ),
        ],
    )


DASHBOARD = Dashboard(
    PIPELINE,
    "Bundles / Pipeline",
    "Each stage of a document: how much, how long, how it ends.",
    [
        Row(
            "All stages",
            [
                Panel(
                    "Documents by what holds them",
                    "Documents in progress now, by cause: queue waits for a place, throttled and "
                    "outage for somebody else, retry for a back-off.",
                    "none",
                    [Query(gauge("bundles_documents_by_cause", "cause"), "{{cause}}")],
                    stacked=True,
                    alert="BundlesStuckWithLag",
                    dashboard=OVERVIEW,
                ),
                Panel(
                    "Share of the time by cause",
                    "Of the end-to-end time of documents that ended.",
                    "percentunit",
                    [
                        Query(
                            "avg by (cause) (job_cause:bundles_cause_seconds:share_rate5m"
                            f"{{{JOB}}})",
                            "{{cause}}",
                        )
                    ],
                    stacked=True,
                ),
                Panel(
                    "p95 by stage",
                    "Time in a stage: 19 of 20 documents are faster.",
                    "s",
                    quantiles("bundles_stage_duration_seconds", 0.95, by="stage"),
                ),
                Panel(
                    "Failures by stage",
                    "Stages that ended with a failure, per second.",
                    "ops",
                    by_label("bundles_stage_outcomes_total", "stage", 'outcome="failed"'),
                    alert="BundlesDeadLetterRateHigh",
                    dashboard=PROVIDER,
                ),
                Panel(
                    "Documents in progress",
                    "Between accept and their end, and those that wait for a place to keep files.",
                    "none",
                    [
                        Query(gauge("bundles_documents_in_progress"), "in progress"),
                        Query(gauge("bundles_document_places_used"), "with local files"),
                        Query(gauge("bundles_document_places_waiting"), "waiting for a place"),
                        Query(gauge("bundles_document_places"), "places"),
                    ],
                    dashboard=KAFKA_STORAGE,
                ),
                Panel(
                    "Bytes",
                    "Fetched from the source, submitted, downloaded from the service, stored.",
                    "Bps",
                    by_label("bundles_bytes_total", "direction"),
                ),
                Panel(
                    "Pages and images",
                    "Of documents whose manifest was written, per second.",
                    "ops",
                    [
                        Query(rate("bundles_pages_total", ""), "pages"),
                        Query(rate("bundles_images_total", ""), "images"),
                    ],
                ),
                Panel(
                    "Document size",
                    "Of submitted documents.",
                    "bytes",
                    quantiles("bundles_document_bytes", 0.5, 0.95),
                ),
                Panel(
                    "Parser processes killed",
                    "Killed for a limit, or crashed, per second: each cost one document.",
                    "ops",
                    by_label("bundles_sandbox_kills_total", "reason"),
                    alert="BundlesSandboxKills",
                ),
                Panel(
                    "Threads: waiting calls",
                    "Calls that wait for a thread of their pool; long queues mean a pool is small.",
                    "none",
                    [Query(gauge("bundles_pool_queued", "pool"), "{{pool}}")],
                ),
                Panel(
                    "Threads: busy share",
                    "Of each pool; 1 is full.",
                    "percentunit",
                    [
                        Query(
                            f"{gauge('bundles_pool_running', 'pool')} / "
                            f"{gauge('bundles_pool_threads', 'pool')}",
                            "{{pool}}",
                        )
                    ],
                ),
                Panel(
                    "Dead-letter storm",
                    "1 while dead letters are held back because everything is refused.",
                    "none",
                    [Query(gauge("bundles_dead_letter_storm", how="max"), "storm")],
                    alert="BundlesDeadLetterStorm",
                ),
            ],
        ),
        *map(_stage, STAGES),
    ],
)
