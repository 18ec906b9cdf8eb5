"""``bundles metrics``: what a worker measures."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from consumers.cli.common import JsonOption, Problem


def metrics(
    markdown: Annotated[
        bool, typer.Option("--markdown", help="As deploy/observability/METRICS.md.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """List every metric of a worker: name, type, unit, labels, meaning."""
    from consumers.metrics import Metrics

    if markdown and as_json:
        raise Problem("--markdown or --json, not both")
    if markdown:
        from deploy.observability.reference import metrics_reference

        print(metrics_reference(), end="")
        return
    specs = Metrics().specs
    if as_json:
        print(json.dumps([asdict(spec) for spec in specs]))
        return
    for spec in specs:
        labels = f"{{{', '.join(spec.labels)}}}" if spec.labels else ""
        unit = f", {spec.unit}" if spec.unit else ""
        print(f"{spec.name}{labels} ({spec.kind}{unit})\n  {spec.meaning}")
