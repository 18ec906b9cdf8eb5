"""METRICS.md: the metrics contract as a table, written from `consumers.metrics`."""

from __future__ import annotations

from consumers.metrics import Metrics

HEAD = """\
# Metrics

Every metric of the worker, at `/metrics` (text, or OpenMetrics with exemplars that carry the
extraction id). Written by `python -m deploy.observability` from `consumers/metrics.py`, which is
the contract: do not edit.

A histogram `x` has the series `x_bucket`, `x_sum` and `x_count`.

| metric | type | unit | labels | meaning |
|---|---|---|---|---|
"""


def metrics_reference() -> str:
    lines = []
    for spec in Metrics().specs:
        labels = ", ".join(f"`{label}`" for label in spec.labels) or "-"
        unit = spec.unit or "-"
        lines.append(f"| `{spec.name}` | {spec.kind} | {unit} | {labels} | {spec.meaning} |")
    return HEAD + "\n".join(lines) + "\n"
