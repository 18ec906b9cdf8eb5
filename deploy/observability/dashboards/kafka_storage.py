"""Backlog, group, store, disk."""

from __future__ import annotations

from deploy.observability.panels import Dashboard, Panel, Query, Row
from deploy.observability.queries import (
    KAFKA_STORAGE,
    OVERVIEW,
    PIPELINE,
    by_label,
    gauge,
    quantiles,
    rate,
)

DASHBOARD = Dashboard(
    KAFKA_STORAGE,
    "Bundles / Kafka and storage",
    "What is waiting, whether offsets move, and how the object store and the local disk do.",
    [
        Row(
            "Backlog",
            [
                Panel(
                    "Lag in records",
                    "Log end minus committed offset, by partition.",
                    "none",
                    [
                        Query(
                            gauge("bundles_consumer_lag_records", "topic, partition"),
                            "{{topic}}/{{partition}}",
                        )
                    ],
                    alert="BundlesStuckWithLag",
                ),
                Panel(
                    "Lag in seconds",
                    "Age of the oldest uncommitted record, by partition.",
                    "s",
                    [
                        Query(
                            gauge("bundles_consumer_lag_seconds", "topic, partition", how="max"),
                            "{{topic}}/{{partition}}",
                        )
                    ],
                    alert="BundlesLagSecondsGrowing",
                    dashboard=PIPELINE,
                ),
                Panel(
                    "Oldest",
                    "The oldest uncommitted record, and the event that has been worked on longest.",
                    "s",
                    [
                        Query(gauge("bundles_oldest_uncommitted_seconds", how="max"), "record"),
                        Query(gauge("bundles_oldest_inflight_seconds", how="max"), "in work"),
                    ],
                    alert="BundlesOldestUncommittedAgeHigh",
                    dashboard=OVERVIEW,
                ),
                Panel(
                    "Fullest window",
                    "How far a partition runs ahead of its committed offset; at 1 it pauses.",
                    "percentunit",
                    [
                        Query(
                            gauge("bundles_window_fullness_ratio", "instance", how="max"),
                            "{{instance}}",
                        )
                    ],
                ),
                Panel(
                    "Events in flight",
                    "Taken in and not done; intake pauses at the limit.",
                    "none",
                    [
                        Query(gauge("bundles_events_in_flight"), "in flight"),
                        Query(gauge("bundles_events_in_flight_limit"), "limit"),
                    ],
                ),
                Panel(
                    "Intake paused",
                    "1 while a worker takes nothing in: a full window, too much in flight, or "
                    "trouble (application).",
                    "none",
                    [Query(gauge("bundles_intake_paused", "cause", how="max"), "{{cause}}")],
                    alert="BundlesBreakerOpen",
                ),
            ],
        ),
        Row(
            "Group and commits",
            [
                Panel(
                    "Partitions",
                    "Owned and paused, by worker.",
                    "none",
                    [
                        Query(
                            gauge("bundles_partitions_assigned", "instance"), "{{instance}} owned"
                        ),
                        Query(
                            gauge("bundles_partitions_paused", "instance"), "{{instance}} paused"
                        ),
                    ],
                ),
                Panel(
                    "Rebalances",
                    "Partitions that came or went, per second.",
                    "ops",
                    by_label("bundles_rebalances_total", "kind"),
                    alert="BundlesRebalanceStorm",
                ),
                Panel(
                    "Work lost to rebalances",
                    "Events that ran when their partition left, and completions that came late.",
                    "ops",
                    [
                        Query(rate("bundles_revoked_with_work_total", ""), "revoked with work"),
                        Query(rate("bundles_stale_completions_total", ""), "stale completions"),
                    ],
                ),
                Panel(
                    "Commits",
                    "Acknowledged, and refused by code. Some refusals belong to every rebalance.",
                    "ops",
                    [
                        Query(rate("bundles_commits_total", ""), "acknowledged"),
                        Query(rate("bundles_commit_failures_total", "code"), "refused: {{code}}"),
                    ],
                    alert="BundlesCommitFailing",
                ),
                Panel(
                    "Commit metadata ignored",
                    "Done offsets that could not be handed over; their events run once more and "
                    "find their manifests.",
                    "ops",
                    by_label("bundles_commit_metadata_ignored_total", "cause"),
                ),
                Panel(
                    "Steps against a stall",
                    "A partition with lag did not move: sought, assigned anew, or worker ended.",
                    "ops",
                    by_label("bundles_watchdog_steps_total", "step"),
                    alert="BundlesWatchdogStepped",
                ),
                Panel(
                    "Control loop",
                    "Where the thread's time goes; the parts add up to one second per second and "
                    "worker.",
                    "percentunit",
                    by_label("bundles_loop_seconds_total", "activity"),
                    stacked=True,
                    alert="BundlesControlLoopStuck",
                ),
                Panel(
                    "Control loop's age",
                    "Since the loop last went round; it should stay below a second.",
                    "s",
                    [
                        Query(
                            gauge("bundles_loop_heartbeat_age_seconds", "instance", how="max"),
                            "{{instance}}",
                        )
                    ],
                    alert="BundlesControlLoopStuck",
                ),
                Panel(
                    "Records refused",
                    "Records that the broker refused: results and dead letters are sent again, "
                    "ledger lines are lost.",
                    "ops",
                    [
                        Query(
                            rate("bundles_publish_failures_total", "topic, code"),
                            "{{topic}}: {{code}}",
                        ),
                        Query(
                            rate("bundles_dead_letter_publish_failures_total", "code"),
                            "dead letter: {{code}}",
                        ),
                        Query(rate("bundles_ledger_lost_total", "code"), "ledger: {{code}}"),
                    ],
                    alert="BundlesDeadLettersCannotBeWritten",
                ),
                Panel(
                    "Trouble of the Kafka client",
                    "What librdkafka reports and deals with itself.",
                    "ops",
                    by_label("bundles_kafka_client_errors_total", "code"),
                ),
            ],
        ),
        Row(
            "Object store",
            [
                Panel(
                    "Calls by outcome",
                    "Per second.",
                    "ops",
                    [
                        Query(
                            rate("bundles_store_operations_total", "operation, outcome"),
                            "{{operation}}: {{outcome}}",
                        )
                    ],
                    alert="BundlesBreakerOpen",
                ),
                Panel(
                    "Latency",
                    "p95 of one call.",
                    "s",
                    quantiles("bundles_store_operation_seconds", 0.95, by="operation"),
                ),
                Panel(
                    "Conditional writes",
                    "created: ours; identical: done before; conflict: other bytes stood there; "
                    "ambiguous_resolved: the answer was lost and read back.",
                    "ops",
                    [
                        Query(
                            rate("bundles_conditional_writes_total", "object, outcome"),
                            "{{object}}: {{outcome}}",
                        )
                    ],
                    alert="BundlesManifestConflict",
                ),
                Panel(
                    "Breakers",
                    "1 while the breaker of the store, the source or the parser is not closed.",
                    "none",
                    [
                        Query(
                            gauge(
                                "bundles_breaker_open",
                                "dependency",
                                how="max",
                                labels='dependency=~"store|source|sandbox"',
                            ),
                            "{{dependency}}",
                        )
                    ],
                    alert="BundlesBreakerOpen",
                ),
            ],
        ),
        Row(
            "Local disk",
            [
                Panel(
                    "Temporary files",
                    "Used, by worker, and the quota.",
                    "bytes",
                    [
                        Query(gauge("bundles_temp_used_bytes", "instance"), "{{instance}}"),
                        Query(gauge("bundles_temp_limit_bytes", how="max"), "quota"),
                    ],
                    alert="BundlesTempDiskNearlyFull",
                ),
                Panel(
                    "Left by dead workers",
                    "Bytes that were swept at the start of a worker.",
                    "bytes",
                    [Query(gauge("bundles_temp_swept_bytes_total", "instance"), "{{instance}}")],
                ),
                Panel(
                    "Open files",
                    "File descriptors, by worker, and the lowest limit.",
                    "none",
                    [
                        Query(gauge("process_open_fds", "instance"), "{{instance}}"),
                        Query(gauge("process_max_fds", how="min"), "limit"),
                    ],
                ),
            ],
        ),
    ],
)
