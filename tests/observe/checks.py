"""Evaluates everything at a Prometheus that scrapes workers under load."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from deploy.observability.panels import RUNBOOK
from tests.observe.expressions import (
    NO_DATA,
    Expression,
    alerts,
    dashboards,
    expressions,
    panels_of,
)
from tests.observe.prometheus import Prometheus

RATE_INTERVAL = "1m"
PATIENCE_S = 90.0


@dataclass
class Findings:
    panels: int = 0
    rules: int = 0
    alerts: int = 0
    expressions: int = 0
    with_data: int = 0
    excused: int = 0
    panels_with_data: int = 0
    alerts_firing: int = 0
    exemplars: int = 0
    problems: list[str] = field(default_factory=list)


def evaluate(prometheus: Prometheus, say: Callable[[str], None]) -> Findings:
    """Every expression, again and again until all that should have data have it."""
    every = expressions()
    found = Findings(
        panels=sum(len(panels_of(board)) for board in dashboards()),
        rules=sum(e.kind == "recording rule" for e in every),
        alerts=len(alerts()),
        expressions=len(every),
        excused=sum(e.where in NO_DATA for e in every),
    )
    deadline = time.monotonic() + PATIENCE_S
    empty = [e for e in every if e.where not in NO_DATA]
    while empty:
        empty = [e for e in empty if not prometheus.samples(e.query(RATE_INTERVAL))]
        say(f"{len(every) - len(empty)} of {len(every)} expressions have data")
        if time.monotonic() > deadline:
            break
        if empty:
            time.sleep(2)
    found.problems += [f"no data: {e.where}: {e.text}" for e in empty]
    found.problems += [
        f"never without data, take it off the list: {w}" for w in _needless(prometheus, every)
    ]
    found.with_data = len(every) - len(empty) - found.excused
    found.panels_with_data = found.panels - len({_panel(e) for e in empty if e.kind == "panel"})
    found.problems += prometheus.rule_problems()
    _check_alerts(prometheus, found)
    return found


def _needless(prometheus: Prometheus, every: list[Expression]) -> list[str]:
    excused = [e for e in every if e.where in NO_DATA]
    return [e.where for e in excused if prometheus.samples(e.query(RATE_INTERVAL))]


def _panel(expression: Expression) -> str:
    return expression.where.rpartition(" / ")[0]


def _check_alerts(prometheus: Prometheus, found: Findings) -> None:
    """Those that fire (under this load some do) say what they should."""
    deadline = time.monotonic() + PATIENCE_S
    while not (firing := prometheus.alerts()) and time.monotonic() < deadline:
        time.sleep(1)
    found.alerts_firing = len({alert["labels"]["alertname"] for alert in firing})
    for alert in firing:
        name, said = alert["labels"]["alertname"], alert["annotations"]
        if any("error expanding" in text or "<no value>" in text for text in said.values()):
            found.problems.append(f"{name}: its annotations do not expand: {said}")
        if said["runbook_url"] != f"{RUNBOOK}#{name.lower()}":
            found.problems.append(f"{name}: runbook_url is {said['runbook_url']}")
        if "/d/bundles-" not in said["dashboard_url"] or "var-job=" not in said["dashboard_url"]:
            found.problems.append(f"{name}: dashboard_url is {said['dashboard_url']}")
