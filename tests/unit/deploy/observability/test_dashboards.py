"""The shipped dashboards: made from code, and each panel is complete."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from deploy.observability.__main__ import generated
from deploy.observability.dashboards import DASHBOARDS
from deploy.observability.panels import COLUMNS, RUNBOOK
from tests.observe.expressions import OBSERVABILITY, dashboards, panels_of

UIDS = {dashboard.uid for dashboard in DASHBOARDS}


@pytest.fixture(params=dashboards(), ids=lambda dashboard: str(dashboard["uid"]))
def dashboard(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = request.param
    return found


def anchors() -> set[str]:
    text = (OBSERVABILITY / "RUNBOOK.md").read_text("utf-8")
    return {heading.lower() for heading in re.findall(r"^#+ (\w+)$", text, re.M)}


@pytest.mark.parametrize("file", generated(), ids=str)
def test_the_files_are_those_that_the_code_makes(file: Any) -> None:
    """Otherwise: ``python -m deploy.observability``."""
    assert (OBSERVABILITY / file).read_text("utf-8") == generated()[file]


def test_no_other_dashboards_are_lying_about() -> None:
    assert {board["uid"] for board in dashboards()} == UIDS
    assert len(UIDS) == len(DASHBOARDS) == 4


def test_every_panel_says_what_it_shows_and_in_which_unit(dashboard: dict[str, Any]) -> None:
    panels = panels_of(dashboard)
    for panel in panels:
        assert panel["title"], panel
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["targets"], panel["title"]
    titles = [panel["title"] for panel in panels]
    assert len(set(titles)) == len(titles)


def test_the_data_source_and_the_job_are_chosen_at_the_top(dashboard: dict[str, Any]) -> None:
    names = [variable["name"] for variable in dashboard["templating"]["list"]]
    assert names[:2] == ["datasource", "job"]
    for panel in panels_of(dashboard):
        assert panel["datasource"]["uid"] == "${datasource}"
        for target in panel["targets"]:
            assert target["datasource"]["uid"] == "${datasource}"
            selectors = re.findall(r"(\w*)\{([^}]*)\}", target["expr"])
            assert selectors, target["expr"]
            for metric, matchers in selectors:
                assert metric == "ALERTS" or 'job=~"$job"' in matchers, target["expr"]
    known = {f"${name}" for name in (*names, "__rate_interval")}
    used = {
        v
        for panel in panels_of(dashboard)
        for t in panel["targets"]
        for v in re.findall(r"\$\w+", t["expr"])
    }
    assert used <= known


def test_nobody_edits_them_in_the_browser(dashboard: dict[str, Any]) -> None:
    assert dashboard["editable"] is False
    file = OBSERVABILITY / "grafana" / "provisioning" / "dashboards" / "bundles.yaml"
    provider = yaml.safe_load(file.read_text("utf-8"))["providers"][0]
    assert provider["allowUiUpdates"] is False


def test_the_default_data_source_is_the_provisioned_one(dashboard: dict[str, Any]) -> None:
    file = OBSERVABILITY / "grafana" / "provisioning" / "datasources" / "prometheus.yaml"
    source = yaml.safe_load(file.read_text("utf-8"))["datasources"][0]
    assert dashboard["templating"]["list"][0]["current"]["value"] == source["uid"]


def test_links_lead_to_dashboards_and_runbook_sections_that_exist(
    dashboard: dict[str, Any],
) -> None:
    sections = anchors()
    linked = 0
    for panel in panels_of(dashboard):
        for link in panel["links"]:
            linked += 1
            if link["url"].startswith("/d/"):
                assert re.match(r"/d/([\w-]+)", link["url"])[1] in UIDS  # type: ignore[index]
            else:
                base, _, anchor = link["url"].partition("#")
                assert base == RUNBOOK
                assert anchor in sections, link
    assert linked
    kinds = {link["type"] for link in dashboard["links"]}
    assert kinds == {"dashboards", "link"}


def test_each_dashboard_leads_from_a_panel_to_others_and_is_led_to_from_one() -> None:
    led_to: dict[str, set[str]] = {
        board["uid"]: {
            found[1]
            for panel in panels_of(board)
            for link in panel["links"]
            if (found := re.match(r"/d/([\w-]+)", link["url"]))
        }
        for board in dashboards()
    }
    assert all(others - {uid} for uid, others in led_to.items())
    assert {uid for others in led_to.values() for uid in others} == UIDS
    for board in dashboards():
        assert any(
            not link["url"].startswith("/d/") for p in panels_of(board) for link in p["links"]
        )


def test_panels_do_not_overlap(dashboard: dict[str, Any]) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        grid = panel["gridPos"]
        assert grid["x"] + grid["w"] <= COLUMNS
        cells = {
            (x, y)
            for x in range(grid["x"], grid["x"] + grid["w"])
            for y in range(grid["y"], grid["y"] + grid["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
    numbers = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(numbers)) == len(numbers)
