"""The shipped dashboards, rules and status page, on real workers under load."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.stage import Servers, say
from tests.observe import browser, pages, prometheus
from tests.observe.browser import Browser
from tests.observe.observed import Observed, observe, problems
from tests.observe.sample import serving
from tests.servers import S3, Kafka

needs_prometheus = pytest.mark.skipif(bool(prometheus.missing()), reason=str(prometheus.missing()))
needs_browser = pytest.mark.skipif(bool(browser.missing()), reason=str(browser.missing()))


@pytest.fixture(scope="module")
def seen(kafka: Kafka, s3: S3, tmp_path_factory: pytest.TempPathFactory) -> Observed:
    servers = Servers(kafka.bootstrap, s3.endpoint, s3.access_key, s3.secret_key)
    return observe(servers, tmp_path_factory.mktemp("observe"), say)


@pytest.fixture(scope="module")
def tab() -> Iterator[Browser]:
    with browser.running() as started:
        yield started


@pytest.mark.integration
@pytest.mark.slow
@needs_prometheus
@pytest.mark.timeout(420)
def test_every_panel_and_rule_has_data_and_the_page_shows_what_goes_on(seen: Observed) -> None:
    assert not problems(seen)
    assert seen.findings.with_data == seen.findings.expressions - seen.findings.excused


@needs_browser
@pytest.mark.parametrize("state", ["busy", "idle", "hangs"])
def test_the_page_fits_and_complains_of_nothing_in_a_browser(
    tab: Browser, state: str, tmp_path: Path
) -> None:
    with serving(state) as url:
        wrong, text = pages.problems_of(tab, url, tmp_path)
    assert not wrong
    assert {
        "busy": "No events are taken in: breaker of service",
        "idle": "Nothing is in progress.",
        "hangs": "The control loop hangs",
    }[state] in text
