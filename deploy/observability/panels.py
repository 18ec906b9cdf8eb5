"""Grafana dashboards as values: panels that all look alike, laid out by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

RUNBOOK = "https://runbooks.example/bundle-extractor"
"""Where RUNBOOK.md is published; `python -m deploy.observability --runbook URL` sets another."""

Kind = Literal["timeseries", "stat", "heatmap", "table"]

COLUMNS = 24
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
SCHEMA_VERSION = 39


@dataclass(frozen=True, slots=True)
class Query:
    """``legend``: as Grafana's ``legendFormat``."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """``unit``: Grafana's name of it. ``good_below``/``bad_from`` colour a stat: green, amber, red
    (the other way round when ``good_below`` is the larger). ``alert``: the runbook section that the
    panel links to. ``dashboard``: the uid of the dashboard with the details."""

    title: str
    description: str
    unit: str
    queries: Sequence[Query]
    kind: Kind = "timeseries"
    width: int = 8
    height: int = 8
    stacked: bool = False
    good_below: float | None = None
    bad_from: float | None = None
    alert: str | None = None
    dashboard: str | None = None


@dataclass(frozen=True, slots=True)
class Row:
    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True, slots=True)
class Variable:
    """A choice at the top of the dashboard, filled from a label of a metric."""

    name: str
    label: str
    metric: str


@dataclass(frozen=True, slots=True)
class Dashboard:
    uid: str
    title: str
    description: str
    rows: Sequence[Row]
    variables: Sequence[Variable] = field(default_factory=tuple)

    @property
    def panels(self) -> list[Panel]:
        return [panel for row in self.rows for panel in row.panels]


def as_json(dashboard: Dashboard, runbook: str = RUNBOOK) -> dict[str, Any]:
    """The dashboard as Grafana provisions it."""
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.description,
        "tags": ["bundles"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": False,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "annotations": {"list": [_alerts_as_annotations()]},
        "links": _links(runbook),
        "templating": {"list": _variables(dashboard)},
        "panels": _laid_out(dashboard, runbook),
    }


def runbook_link(runbook: str, alert: str) -> str:
    return f"{runbook}#{alert.lower()}"


def _links(runbook: str) -> list[dict[str, Any]]:
    return [
        {
            "type": "dashboards",
            "title": "Bundles",
            "tags": ["bundles"],
            "asDropdown": False,
            "includeVars": True,
            "keepTime": True,
            "targetBlank": False,
        },
        {"type": "link", "title": "Runbook", "url": runbook, "icon": "doc", "targetBlank": True},
    ]


def _alerts_as_annotations() -> dict[str, Any]:
    return {
        "name": "Alerts",
        "datasource": DATASOURCE,
        "enable": True,
        "iconColor": "red",
        "expr": 'ALERTS{alertname=~"Bundles.*",alertstate="firing"}',
        "titleFormat": "{{alertname}}",
        "step": "60s",
    }


def _variables(dashboard: Dashboard) -> list[dict[str, Any]]:
    datasource = {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "current": {"text": "Prometheus", "value": "bundles-prometheus"},
    }
    job = Variable("job", "Job", "bundles_build_info")
    return [datasource, *map(_variable, (job, *dashboard.variables))]


def _variable(variable: Variable) -> dict[str, Any]:
    selector = "" if variable.name == "job" else '{job=~"$job"}'
    query = f"label_values({variable.metric}{selector}, {variable.name})"
    return {
        "name": variable.name,
        "label": variable.label,
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": query, "refId": variable.name},
        "definition": query,
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".+",
        "current": {"text": "All", "value": "$__all"},
    }


def _laid_out(dashboard: Dashboard, runbook: str) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    top = 0
    for row in dashboard.rows:
        made.append(
            {
                "id": len(made) + 1,
                "type": "row",
                "title": row.title,
                "collapsed": False,
                "panels": [],
                "gridPos": {"x": 0, "y": top, "w": COLUMNS, "h": 1},
            }
        )
        top += 1
        left = highest = 0
        for panel in row.panels:
            if left + panel.width > COLUMNS:
                top, left, highest = top + highest, 0, 0
            grid = {"x": left, "y": top, "w": panel.width, "h": panel.height}
            made.append(_panel(panel, len(made) + 1, grid, runbook))
            left, highest = left + panel.width, max(highest, panel.height)
        top += highest
    return made


def _panel(panel: Panel, number: int, grid: dict[str, int], runbook: str) -> dict[str, Any]:
    links: list[dict[str, Any]] = []
    if panel.dashboard:
        url = f"/d/{panel.dashboard}?${{__url_time_range}}&${{datasource:queryparam}}"
        links.append({"title": "Details", "url": f"{url}&${{job:queryparam}}"})
    if panel.alert:
        link = {"title": "Runbook", "url": runbook_link(runbook, panel.alert)}
        links.append(link | {"targetBlank": True})
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0}
    if panel.kind == "timeseries":
        defaults["custom"] = {
            "drawStyle": "line",
            "lineWidth": 1,
            "fillOpacity": 30 if panel.stacked else 8,
            "showPoints": "never",
            "spanNulls": False,
            "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
        }
    if panel.good_below is not None and panel.bad_from is not None:
        defaults["thresholds"] = {"mode": "absolute", "steps": _steps(panel)}
        defaults["color"] = {"mode": "thresholds"}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": DATASOURCE,
        "gridPos": grid,
        "links": links,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": _options(panel),
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": DATASOURCE,
                "editorMode": "code",
                "expr": query.expr,
                "legendFormat": query.legend or "__auto",
                "range": panel.kind not in ("stat", "table"),
                "instant": panel.kind in ("stat", "table"),
                "exemplar": panel.kind == "timeseries" and "_bucket" in query.expr,
                "format": {"heatmap": "heatmap", "table": "table"}.get(panel.kind, "time_series"),
            }
            for index, query in enumerate(panel.queries)
        ],
    }


def _steps(panel: Panel) -> list[dict[str, Any]]:
    assert panel.good_below is not None
    assert panel.bad_from is not None
    if panel.good_below <= panel.bad_from:
        colours = (("green", None), ("orange", panel.good_below), ("red", panel.bad_from))
    else:
        colours = (("red", None), ("orange", panel.bad_from), ("green", panel.good_below))
    return [{"color": colour, "value": value} for colour, value in colours]


def _options(panel: Panel) -> dict[str, Any]:
    match panel.kind:
        case "timeseries":
            legend = {
                "displayMode": "table",
                "placement": "bottom",
                "calcs": ["lastNotNull", "max"],
            }
            return {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}
        case "stat":
            return {
                "colorMode": "value",
                "graphMode": "none",
                "reduceOptions": {"calcs": ["lastNotNull"]},
            }
        case "heatmap":
            return {"calculate": False, "yAxis": {"unit": panel.unit}, "cellGap": 1}
        case "table":
            return {"showHeader": True}
