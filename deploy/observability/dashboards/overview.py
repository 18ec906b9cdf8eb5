"""Is it well?"""

from __future__ import annotations

from deploy.observability.panels import Dashboard, Panel, Query, Row
from deploy.observability.queries import (
    BUDGET,
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

DASHBOARD = Dashboard(
    OVERVIEW,
    "Bundles / Overview",
    "Is it well, is it fast enough, and where does the time go?",
    [
        Row(
            "Is it well?",
            [
                Panel(
                    "Workers up",
                    "Workers that answer scrapes.",
                    "none",
                    [Query(f"sum (up{{{JOB}}})")],
                    kind="stat",
                    width=4,
                    height=4,
                    good_below=1,
                    bad_from=0.5,
                    alert="BundlesWorkerAbsent",
                ),
                Panel(
                    "Within 10 minutes (1 h)",
                    "Documents of the last hour that had their result within ten minutes of the "
                    "event, of those that should have. The objective is 99 %.",
                    "percentunit",
                    [Query(f"1 - max (job:bundles_slo_errors:ratio_rate1h{{{JOB}}})")],
                    kind="stat",
                    width=4,
                    height=4,
                    good_below=0.99,
                    bad_from=0.95,
                    alert="BundlesErrorBudgetBurnFast",
                ),
                Panel(
                    "Error budget left (30 d)",
                    "What is left of the 1 % of documents that may miss the objective.",
                    "percentunit",
                    [Query(f"min (job:bundles_slo_errors:budget_left{{{JOB}}})")],
                    kind="stat",
                    width=4,
                    height=4,
                    good_below=0.5,
                    bad_from=0.1,
                    alert="BundlesErrorBudgetNearlySpent",
                ),
                Panel(
                    "Oldest uncommitted",
                    "Age of the oldest record whose work is not done: what the slowest bundle has "
                    "waited so far.",
                    "s",
                    [Query(gauge("bundles_oldest_uncommitted_seconds", how="max"))],
                    kind="stat",
                    width=4,
                    height=4,
                    good_below=300,
                    bad_from=1800,
                    alert="BundlesOldestUncommittedAgeHigh",
                    dashboard=KAFKA_STORAGE,
                ),
                Panel(
                    "Dead letters (1 h)",
                    "Documents and events that ended as a dead letter in the last hour.",
                    "none",
                    [Query(f"sum (increase(bundles_dead_letters_total{{{JOB}}}[1h]))")],
                    kind="stat",
                    width=4,
                    height=4,
                    good_below=1,
                    bad_from=50,
                    alert="BundlesDeadLetterRateHigh",
                ),
                Panel(
                    "Alerts firing",
                    "Alerts of this system that fire now.",
                    "none",
                    [
                        Query(
                            'count (ALERTS{alertname=~"Bundles.*",alertstate="firing"}) '
                            "or vector(0)"
                        )
                    ],
                    kind="stat",
                    width=4,
                    height=4,
                    good_below=1,
                    bad_from=1,
                ),
            ],
        ),
        Row(
            "Service level",
            [
                Panel(
                    "Burn rate by window",
                    "How many times faster than allowed the error budget is spent; 1 spends it in "
                    "exactly 30 days. Pages at 14.4 (1 h and 5 m) and 6 (6 h and 30 m).",
                    "none",
                    [
                        Query(
                            f"max (job:bundles_slo_errors:ratio_rate{window}{{{JOB}}}) / {BUDGET}",
                            window,
                        )
                        for window in ("5m", "1h", "6h", "3d")
                    ],
                    width=12,
                    alert="BundlesErrorBudgetBurnFast",
                ),
                Panel(
                    "End to end",
                    "From the event's timestamp to the acknowledged result.",
                    "s",
                    quantiles(
                        "bundles_end_to_end_seconds", 0.5, 0.95, 0.99, labels='outcome="extracted"'
                    ),
                    width=12,
                    alert="BundlesErrorBudgetBurnSlow",
                    dashboard=PIPELINE,
                ),
            ],
        ),
        Row(
            "Flow",
            [
                Panel(
                    "Documents by outcome",
                    "Documents that ended, per second.",
                    "ops",
                    by_label("bundles_documents_total", "outcome"),
                    alert="BundlesStuckWithLag",
                ),
                Panel(
                    "Events",
                    "Events taken in, and those of which every document is terminal.",
                    "ops",
                    [
                        Query(rate("bundles_events_received_total", ""), "received"),
                        Query(
                            rate("bundles_events_finished_total", "outcome"),
                            "finished: {{outcome}}",
                        ),
                        Query(rate("bundles_replays_total", ""), "of which replayed"),
                    ],
                ),
                Panel(
                    "Dead letters by reason",
                    "Per second, the ten most frequent reasons. fault=service spends the error "
                    "budget, fault=sender lies with whoever sent the event.",
                    "ops",
                    [
                        Query(
                            f"topk(10, {rate('bundles_dead_letters_total', 'reason, fault')})",
                            "{{reason}} ({{fault}})",
                        )
                    ],
                    alert="BundlesDeadLetterRateHigh",
                ),
            ],
        ),
        Row(
            "Where the time goes",
            [
                Panel(
                    "Seconds per document by cause",
                    "Mean over the documents that ended. The causes of a document add up to its "
                    "end-to-end time, so the height of the stack is the mean end-to-end time.",
                    "s",
                    [
                        Query(
                            f"{rate('bundles_cause_seconds_sum', 'cause')} / on () group_left () "
                            f"({rate('bundles_documents_total', '')} > 0)",
                            "{{cause}}",
                        )
                    ],
                    stacked=True,
                    dashboard=PIPELINE,
                ),
                Panel(
                    "Queue wait, service, poll lag",
                    "The three parts of a wait, apart: before we started, at the service, and done "
                    "there but not seen here yet.",
                    "s",
                    [
                        *quantiles("bundles_queue_wait_seconds", 0.5, 0.95, name="queue wait"),
                        *quantiles("bundles_provider_run_seconds", 0.5, 0.95, name="service"),
                        *quantiles("bundles_poll_lag_seconds", 0.5, 0.95, name="poll lag"),
                    ],
                    dashboard=PROVIDER,
                ),
                Panel(
                    "End to end, distribution",
                    "Documents per second by end-to-end time: the tail shows as a band of its own.",
                    "s",
                    [
                        Query(
                            rate("bundles_end_to_end_seconds_bucket", "le", 'outcome="extracted"'),
                            "{{le}}",
                        )
                    ],
                    kind="heatmap",
                ),
            ],
        ),
        Row(
            "Room",
            [
                Panel(
                    "In flight and limits",
                    "Shares of the limits that bound the work at one time; 1 is full.",
                    "percentunit",
                    [
                        Query(
                            f"{gauge('bundles_events_in_flight')} / "
                            f"{gauge('bundles_events_in_flight_limit')}",
                            "events",
                        ),
                        Query(
                            f"{gauge('bundles_provider_job_slots_used', 'provider')} / "
                            f"{gauge('bundles_provider_job_slots', 'provider')}",
                            "job slots of {{provider}}",
                        ),
                        Query(
                            f"{gauge('bundles_document_places_used')} / "
                            f"{gauge('bundles_document_places')}",
                            "documents with local files",
                        ),
                        Query(
                            f"{gauge('bundles_temp_used_bytes')} / "
                            f"{gauge('bundles_temp_limit_bytes')}",
                            "temporary disk",
                        ),
                    ],
                    alert="BundlesSlotsSaturated",
                ),
                Panel(
                    "Memory",
                    "Resident memory of each worker.",
                    "bytes",
                    [Query(gauge("process_resident_memory_bytes", "instance"), "{{instance}}")],
                ),
                Panel(
                    "Versions",
                    "What runs where.",
                    "none",
                    [Query(gauge("bundles_build_info", "version, python"))],
                    kind="table",
                ),
            ],
        ),
    ],
)
