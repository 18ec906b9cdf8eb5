"""METRICS.md: the metrics contracts as tables, written from the modules that are the contracts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client.metrics import MetricWrapperBase

from consumers.metrics import Metrics, Spec
from deploy.extractor.metrics import Metrics as ServiceMetrics

HEAD = """\
# Metrics

Every metric of the worker, at its `/metrics` (text, or OpenMetrics with exemplars that carry the
extraction id), and below them those of the self-hosted extraction service, at its own. Written by
`python -m deploy.observability` from `consumers/metrics.py` and `deploy/extractor/metrics.py`,
which are the contracts: do not edit. The dashboards and alerts here use the worker's only.

A histogram `x` has the series `x_bucket`, `x_sum` and `x_count`.
"""
TABLE = """
## {title}

| metric | type | unit | labels | meaning |
|---|---|---|---|---|
{rows}
"""


def metrics_reference() -> str:
    return (
        HEAD
        + _table("The worker", Metrics().specs)
        + _table("The self-hosted extraction service", list(_of_the_service()))
    )


def _of_the_service() -> Iterator[Spec]:
    for metric in vars(ServiceMetrics()).values():
        if isinstance(metric, MetricWrapperBase):
            kind = str(metric._type)
            name = f"{metric._name}_total" if kind == "counter" else metric._name
            unit = next((u for u in ("seconds", "bytes") if f"_{u}" in name), "")
            yield Spec(name, kind, unit, metric._labelnames, f"{metric._documentation}.")


def _table(title: str, specs: Sequence[Spec]) -> str:
    rows = []
    for spec in specs:
        labels = ", ".join(f"`{label}`" for label in spec.labels) or "-"
        unit = spec.unit or "-"
        rows.append(f"| `{spec.name}` | {spec.kind} | {unit} | {labels} | {spec.meaning} |")
    return TABLE.format(title=title, rows="\n".join(rows))
