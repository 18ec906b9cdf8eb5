"""PromQL as the dashboards write it: always over the chosen jobs."""

from __future__ import annotations

from deploy.observability.panels import Query

OVERVIEW, PIPELINE = "bundles-overview", "bundles-pipeline"
KAFKA_STORAGE, PROVIDER = "bundles-kafka-storage", "bundles-provider"
"""The uids of the dashboards."""

JOB = 'job=~"$job"'
RATE = "[$__rate_interval]"
BUDGET = 0.01
"""The share of documents that may miss the objective: 99 % within ten minutes."""


def rate(metric: str, by: str, labels: str = "") -> str:
    """Per second, summed over workers. ``labels``: further matchers."""
    matchers = f"{JOB},{labels}" if labels else JOB
    group = f" by ({by})" if by else ""
    return f"sum{group} (rate({metric}{{{matchers}}}{RATE}))"


def gauge(metric: str, by: str = "", *, how: str = "sum", labels: str = "") -> str:
    matchers = f"{JOB},{labels}" if labels else JOB
    group = f" by ({by})" if by else ""
    return f"{how}{group} ({metric}{{{matchers}}})"


def quantile(q: float, metric: str, by: str = "", labels: str = "") -> str:
    group = f"le, {by}" if by else "le"
    return f"histogram_quantile({q}, {rate(f'{metric}_bucket', group, labels)})"


def quantiles(
    metric: str, *qs: float, by: str = "", labels: str = "", name: str = ""
) -> list[Query]:
    """One query per quantile; ``by`` goes into the legend."""
    what = f" {{{{{by}}}}}" if by else (f" {name}" if name else "")
    return [Query(quantile(q, metric, by, labels), f"p{q * 100:g}{what}") for q in qs]


def by_label(metric: str, label: str, labels: str = "") -> list[Query]:
    return [Query(rate(metric, label, labels), f"{{{{{label}}}}}")]
