"""The remote services."""

from __future__ import annotations

from deploy.observability.panels import Dashboard, Panel, Query, Row, Variable
from deploy.observability.queries import (
    JOB,
    OVERVIEW,
    PIPELINE,
    PROVIDER,
    by_label,
    gauge,
    quantiles,
    rate,
)

THEIRS = 'provider=~"$provider"'

DASHBOARD = Dashboard(
    PROVIDER,
    "Bundles / Extraction service",
    "What the remote services do, what they ask of us, and what we spend on them.",
    [
        Row(
            "Jobs",
            [
                Panel(
                    "Jobs in flight and slots",
                    "Submitted and not finished, slots taken (with submits under way), and the "
                    "limit.",
                    "none",
                    [
                        Query(
                            gauge("bundles_provider_jobs_in_flight", "provider", labels=THEIRS),
                            "{{provider}} in flight",
                        ),
                        Query(
                            gauge("bundles_provider_job_slots_used", "provider", labels=THEIRS),
                            "{{provider}} slots used",
                        ),
                        Query(
                            gauge("bundles_provider_job_slots", "provider", labels=THEIRS),
                            "{{provider}} slots",
                        ),
                        Query(
                            gauge("bundles_provider_jobs_waiting", "provider", labels=THEIRS),
                            "{{provider}} waiting",
                        ),
                    ],
                    alert="BundlesSlotsSaturated",
                    dashboard=PIPELINE,
                ),
                Panel(
                    "Time at the service",
                    "From acceptance to the job's end, poll lag not counted.",
                    "s",
                    quantiles(
                        "bundles_provider_run_seconds", 0.5, 0.95, by="provider", labels=THEIRS
                    ),
                    dashboard=OVERVIEW,
                ),
                Panel(
                    "Poll lag",
                    "Done at the service, not yet seen here.",
                    "s",
                    quantiles("bundles_poll_lag_seconds", 0.5, 0.95, by="provider", labels=THEIRS),
                ),
                Panel(
                    "Polls per job",
                    "Mean and p95 of the polls that a finished job took.",
                    "none",
                    [
                        Query(
                            f"{rate('bundles_provider_polls_per_job_sum', 'provider', THEIRS)} / "
                            f"{rate('bundles_provider_polls_per_job_count', 'provider', THEIRS)}",
                            "mean {{provider}}",
                        ),
                        *quantiles(
                            "bundles_provider_polls_per_job", 0.95, by="provider", labels=THEIRS
                        ),
                    ],
                ),
                Panel(
                    "Submits",
                    "By kind: first, again under the same key, further jobs for the same pages; "
                    "and jobs that were re-attached instead.",
                    "ops",
                    [
                        Query(
                            rate("bundles_provider_submits_total", "provider, kind", THEIRS),
                            "{{provider}} {{kind}}",
                        ),
                        Query(
                            rate("bundles_provider_jobs_resumed_total", "provider", THEIRS),
                            "{{provider}} resumed",
                        ),
                    ],
                ),
                Panel(
                    "Jobs that may have been paid twice",
                    "A second job for one extraction. It should stay at zero.",
                    "none",
                    [
                        Query(
                            "sum by (provider) (increase(bundles_provider_duplicate_submissions"
                            f"_total{{{JOB},{THEIRS}}}[1h]))",
                            "{{provider}}",
                        )
                    ],
                    alert="BundlesSubmittedTwice",
                ),
            ],
        ),
        Row(
            "Calls",
            [
                Panel(
                    "Calls by outcome",
                    "Per second, by what the answer meant.",
                    "ops",
                    [
                        Query(
                            rate("bundles_provider_calls_total", "operation, outcome", THEIRS)
                            + " > 0",
                            "{{operation}}: {{outcome}}",
                        )
                    ],
                    alert="BundlesProviderFailing",
                ),
                Panel(
                    "Latency by operation",
                    "p95 of one call.",
                    "s",
                    quantiles("bundles_provider_call_seconds", 0.95, by="operation", labels=THEIRS),
                ),
                Panel(
                    "Share of failed calls",
                    "Of all calls but throttled ones: answers that cost an attempt or more.",
                    "percentunit",
                    [
                        Query(
                            "max by (provider) (job_provider:bundles_provider_errors:ratio_rate5m"
                            f"{{{JOB},{THEIRS}}})",
                            "{{provider}}",
                        )
                    ],
                    alert="BundlesProviderFailing",
                ),
                Panel(
                    "Statuses we do not know",
                    "Answers with a word that the adapter does not know; taken for running.",
                    "ops",
                    by_label("bundles_provider_unknown_status_total", "provider", THEIRS),
                ),
                Panel(
                    "Images and pages not given",
                    "By finished jobs (RUNBOOK, Images that a service could not give).",
                    "ops",
                    [
                        Query(
                            rate("bundles_provider_problems_total", "provider, code", THEIRS),
                            "{{provider}} {{code}}",
                        )
                    ],
                ),
                Panel(
                    "Deletions refused",
                    "Given up: jobs left at the service (RUNBOOK, Deletions at a service).",
                    "ops",
                    [
                        Query(
                            rate("bundles_provider_forget_failures_total", "provider", THEIRS),
                            "{{provider}} given up",
                        ),
                        Query(
                            rate("bundles_provider_forget_retries_total", "provider", THEIRS),
                            "{{provider}} tried again",
                        ),
                    ],
                ),
            ],
        ),
        Row(
            "Pressure",
            [
                Panel(
                    "Throttled calls",
                    "429 and 503 with a wait, per second.",
                    "ops",
                    [
                        Query(
                            rate("bundles_provider_throttles_total", "dependency, operation"),
                            "{{dependency}} {{operation}}",
                        )
                    ],
                    alert="BundlesProviderThrottled",
                ),
                Panel(
                    "Waits asked for",
                    "Seconds of waiting that were asked for, per second.",
                    "s",
                    by_label("bundles_provider_throttled_seconds_total", "dependency"),
                    alert="BundlesProviderThrottled",
                ),
                Panel(
                    "Wait at the gate now",
                    "What a call would wait before it is made: everybody waits together.",
                    "s",
                    [
                        Query(
                            gauge("bundles_gate_seconds", "dependency", how="max"), "{{dependency}}"
                        )
                    ],
                ),
                Panel(
                    "Retries by reason",
                    "Calls made again, per second.",
                    "ops",
                    [
                        Query(
                            rate("bundles_retries_total", "dependency, reason"),
                            "{{dependency}} {{reason}}",
                        )
                    ],
                    alert="BundlesRetryBudgetNearlySpent",
                ),
                Panel(
                    "Retry budget left",
                    "Share of the budget; at zero retries wait until first attempts earn them.",
                    "percentunit",
                    [
                        Query(
                            f"{gauge('bundles_retry_budget_left', 'dependency', how='min')} / "
                            f"{gauge('bundles_retry_budget_limit', 'dependency', how='max')}",
                            "{{dependency}}",
                        )
                    ],
                    alert="BundlesRetryBudgetNearlySpent",
                ),
                Panel(
                    "Attempts used up",
                    "Calls given up after every attempt, per second: each is a dead letter.",
                    "ops",
                    by_label("bundles_attempts_exhausted_total", "dependency"),
                    alert="BundlesAttemptsExhausted",
                ),
                Panel(
                    "Breakers",
                    "1 while a dependency's breaker is not closed: intake waits for it.",
                    "none",
                    [
                        Query(
                            gauge("bundles_breaker_open", "dependency", how="max"), "{{dependency}}"
                        )
                    ],
                    alert="BundlesBreakerOpen",
                ),
                Panel(
                    "Breaker opened",
                    "Per second.",
                    "ops",
                    by_label("bundles_breaker_opens_total", "dependency"),
                    alert="BundlesBreakerOpen",
                ),
                Panel(
                    "Last result",
                    "Seconds since any worker had a document extracted.",
                    "s",
                    [
                        Query(
                            "time() - "
                            + gauge("bundles_last_success_timestamp_seconds", how="max"),
                            "since the last result",
                        )
                    ],
                    alert="BundlesStuckWithLag",
                ),
            ],
        ),
    ],
    variables=[Variable("provider", "Service", "bundles_provider_job_slots")],
)
