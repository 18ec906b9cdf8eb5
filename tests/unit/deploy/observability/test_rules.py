"""Each alert says what to do, has a runbook section, and cases in which it fires and does not."""

from __future__ import annotations

import re
from typing import Any

import pytest
import typer
import yaml

from consumers.cli import application
from consumers.settings import known_names
from deploy.observability.dashboards import DASHBOARDS
from schemas.policy import Policy
from schemas.reasons import Reason
from tests.observe.expressions import OBSERVABILITY, RULE_FILES, alerts
from tests.observe.prometheus import JOB

RUNBOOK = (OBSERVABILITY / "RUNBOOK.md").read_text("utf-8")
SECTIONS = dict(
    zip(
        *[iter(re.split(r"^### (\w+)$", RUNBOOK, flags=re.M)[1:])] * 2,
        strict=True,
    )
)
CASES = [
    case
    for file in sorted((OBSERVABILITY / "prometheus" / "tests").glob("*.yml"))
    for case in yaml.safe_load(file.read_text("utf-8"))["tests"]
]


@pytest.fixture(params=alerts(), ids=lambda alert: str(alert["alert"]))
def alert(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = request.param
    return found


def test_an_alert_says_what_it_means_and_where_to_look(alert: dict[str, Any]) -> None:
    said = alert["annotations"]
    assert set(said) == {"summary", "description", "runbook_url", "dashboard_url"}
    assert alert["labels"]["severity"] in ("critical", "warning", "info")
    assert said["runbook_url"] == "{{ $externalLabels.runbook }}#" + alert["alert"].lower()
    uid = re.search(r"/d/([\w-]+)\?", said["dashboard_url"])
    assert uid is not None
    assert uid[1] in {dashboard.uid for dashboard in DASHBOARDS}
    assert alert["for"]
    assert re.fullmatch(r"Bundles([A-Z][a-z]+)+", alert["alert"])


def test_an_alert_has_a_runbook_section_that_says_what_to_do(alert: dict[str, Any]) -> None:
    section = SECTIONS[alert["alert"]]
    for part in ("**Means.**", "**Look at.**", "**Do.**"):
        assert part in section


def test_an_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not(
    alert: dict[str, Any],
) -> None:
    expected = f'count(ALERTS{{alertname="{alert["alert"]}",alertstate="firing"}})'
    fires = [
        bool(asked["exp_samples"])
        for case in CASES
        for asked in case["promql_expr_test"]
        if asked["expr"] == expected
    ]
    assert True in fires
    assert False in fires


def test_a_ratio_that_needs_a_volume_has_a_case_with_too_little_of_it() -> None:
    guarded = {
        rule["alert"]
        for rule in alerts()
        if re.search(r"ratio_rate|budget_left", rule["expr"])
        and re.search(r"and\s+sum by [^\n]*increase\(\w+\[\w+\]\)\) > \d", rule["expr"])
    }
    assert len(guarded) == 8
    silent = {
        case["name"].split()[0]
        for case in CASES
        if " is silent: " in case["name"]
        and case["name"].endswith("too few to judge")
        and not case["promql_expr_test"][0]["exp_samples"]
    }
    assert guarded == silent


def test_the_runbook_has_no_section_without_an_alert() -> None:
    assert set(SECTIONS) == {alert["alert"] for alert in alerts()}


def test_links_inside_the_runbook_lead_somewhere() -> None:
    headings = {h.lower().replace(" ", "-") for h in re.findall(r"^#+ (.+)$", RUNBOOK, re.M)}
    assert set(re.findall(r"\]\(#([\w-]+)\)", RUNBOOK)) <= headings


def test_commands_in_the_runbook_exist() -> None:
    group = typer.main.get_command(application())
    known = set(getattr(group, "commands", {}))
    assert set(re.findall(r"`bundles ([a-z]+)", RUNBOOK)) <= known


def test_settings_reasons_and_panels_in_the_runbook_exist() -> None:
    names = set(known_names())
    sections = {name.split(".")[0] for name in names if "." in name}
    for section, setting in re.findall(r"`(\w+)\.(\w+)\b[^`]*`", RUNBOOK):
        if section in sections:
            assert f"{section}.{setting}" in names
        elif section in ("polling", "retries"):
            policy = Policy.model_fields[section].annotation
            assert policy is not None
            assert setting in policy.model_fields
    assert set(re.findall(r"--reason (\w+)", RUNBOOK)) <= set(Reason)
    titles = {panel.title for dashboard in DASHBOARDS for panel in dashboard.panels}
    for quoted in re.findall(
        r"\*(?:Overview|Kafka and storage|Extraction\s+service)\*, \"([^\"]+)\"", RUNBOOK
    ):
        assert " ".join(quoted.split()) in titles


def test_rules_and_scrapes_agree_on_the_name_of_the_job() -> None:
    config = yaml.safe_load((OBSERVABILITY / "prometheus" / "prometheus.yml").read_text("utf-8"))
    assert [scrape["job_name"] for scrape in config["scrape_configs"]] == [JOB]
    assert config["rule_files"] == [file.name for file in RULE_FILES]
    for rule in alerts():
        assert set(re.findall(r'job="([^"]+)"', rule["expr"])) <= {JOB}


def test_series_are_recorded_more_often_than_prometheus_looks_back() -> None:
    """Else an alert on them has gaps, and never fires."""
    for file in RULE_FILES:
        for group in yaml.safe_load(file.read_text("utf-8"))["groups"]:
            interval = group.get("interval", "30s")
            seconds = int(interval[:-1]) * {"s": 1, "m": 60}[interval[-1]]
            assert seconds <= 150, group["name"]
