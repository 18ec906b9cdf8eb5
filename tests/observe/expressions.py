"""Every PromQL expression that is shipped: of panels, recording rules and alerts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

OBSERVABILITY = Path(__file__).parents[2] / "deploy" / "observability"
DASHBOARD_FILES = sorted((OBSERVABILITY / "grafana" / "dashboards").glob("*.json"))
RULE_FILES = [OBSERVABILITY / "prometheus" / name for name in ("recording.yml", "alerts.yml")]

Kind = Literal["panel", "recording rule", "alert"]

NO_DATA: dict[str, str] = {}
"""Expressions (by `Expression.where`) that need not return data here, and why."""


@dataclass(frozen=True, slots=True)
class Expression:
    """``where`` says which one, for people. ``text`` is as shipped."""

    where: str
    kind: Kind
    text: str

    def query(self, rate_interval: str) -> str:
        """What a Prometheus can evaluate, and what always gives data where its operands do: the
        variables are filled in, and comparisons give 0 or 1 instead of dropping what is not
        alarming."""
        text = self.text.replace("$__rate_interval", rate_interval)
        for variable in ("$job", "$provider"):
            text = text.replace(f'"{variable}"', '".+"')
        assert "$" not in text, f"{self.where} has a variable that is not known here: {text}"
        return with_bool(text)


def with_bool(text: str) -> str:
    """``text`` with ``bool`` after each comparison of values (matchers are left alone)."""
    parts = re.split(r"(\{[^}]*\}|\"[^\"]*\")", text)
    for index in range(0, len(parts), 2):
        parts[index] = re.sub(r"(==|!=|>=|<=|>|<)(?!\s*bool)", r"\1 bool", parts[index])
    return "".join(parts)


def dashboards() -> list[dict[str, Any]]:
    return [json.loads(file.read_text("utf-8")) for file in DASHBOARD_FILES]


def panels_of(dashboard: dict[str, Any]) -> list[dict[str, Any]]:
    """Without the rows."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def rules() -> Iterator[dict[str, Any]]:
    """Recording rules and alerts, as written."""
    for file in RULE_FILES:
        for group in yaml.safe_load(file.read_text("utf-8"))["groups"]:
            yield from group["rules"]


def alerts() -> list[dict[str, Any]]:
    return [rule for rule in rules() if "alert" in rule]


def expressions() -> list[Expression]:
    found = [
        Expression(
            f"{board['title']} / {panel['title']} / {target['refId']}", "panel", target["expr"]
        )
        for board in dashboards()
        for panel in panels_of(board)
        for target in panel["targets"]
    ]
    for rule in rules():
        if "alert" in rule:
            found.append(Expression(rule["alert"], "alert", rule["expr"]))
        else:
            found.append(Expression(rule["record"], "recording rule", rule["expr"]))
    return found
