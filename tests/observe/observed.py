"""One run of everything: load, Prometheus, browser. The command and the tests judge it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prometheus_client.openmetrics.parser import text_string_to_metric_families

from deploy.local.process import ChildProcess
from tests.faults.stage import Servers, Stage
from tests.observe import browser, pages, prometheus
from tests.observe.checks import Findings, evaluate
from tests.observe.load import loaded

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


@dataclass
class Observed:
    """What was seen. ``skipped``: what could not be tried, and why."""

    findings: Findings = field(default_factory=Findings)
    exemplars: list[dict[str, str]] = field(default_factory=list)
    results: set[str] = field(default_factory=set)
    """Ids of the results that were published."""
    text: str = ""
    """`/metrics` in the text format."""
    openmetrics: str = ""
    page_problems: list[str] = field(default_factory=list)
    page_text: str = ""
    page: str = ""
    status: dict[str, Any] = field(default_factory=dict)
    secrets: list[str] = field(default_factory=list)
    """What must not be on the page."""
    skipped: list[str] = field(default_factory=list)


def observe(servers: Servers, folder: Path, say: Callable[[str], None]) -> Observed:
    """``folder`` gets pictures of the status page."""
    seen = Observed()
    with loaded(servers) as (stage, workers):
        say("two workers under load")
        if reason := prometheus.missing():
            seen.skipped.append(reason)
        else:
            _prometheus(stage, workers, folder, seen, say)
        seen.text = _get(stage, workers[0], "/metrics", "text/plain")
        seen.openmetrics = _get(stage, workers[0], "/metrics", OPENMETRICS)
        _page(stage, workers[0], folder, seen, say)
        seen.secrets = [
            *("load-", "before-", "wrong-", "document-00", "uploads/"),
            *(stage.input_bucket, stage.output_bucket, stage.s3_access_key, stage.s3_secret_key),
        ]
        seen.results = {result.identifier for result in stage.results()}
    return seen


def _prometheus(
    stage: Stage,
    workers: list[ChildProcess],
    folder: Path,
    seen: Observed,
    say: Callable[[str], None],
) -> None:
    started = time.time()
    targets = [stage.address(worker).removeprefix("http://") for worker in workers]
    with prometheus.running(folder / "prometheus", targets) as running:
        seen.findings = evaluate(running, say)
        if running.targets_up() != len(targets):
            seen.findings.problems.append("not every worker is up for Prometheus")
        seen.exemplars = running.exemplars(
            "bundles_end_to_end_seconds_bucket", started - 60, time.time() + 60
        )
        seen.findings.exemplars = len(seen.exemplars)


def _page(
    stage: Stage,
    worker: ChildProcess,
    folder: Path,
    seen: Observed,
    say: Callable[[str], None],
) -> None:
    seen.status = json.loads(_get(stage, worker, "/status", "application/json"))
    seen.page = _get(stage, worker, "/status?refresh=0", "text/html")
    if reason := browser.missing():
        seen.skipped.append(reason)
        return
    say("the status page in a browser")
    with browser.running() as tab:
        seen.page_problems, seen.page_text = pages.problems_of(
            tab, f"{stage.address(worker)}/status?refresh=0", folder
        )


def _get(stage: Stage, worker: ChildProcess, path: str, accept: str) -> str:
    import urllib3

    answer = urllib3.request(
        "GET", f"{stage.address(worker)}{path}", headers={"Accept": accept}, timeout=10
    )
    assert answer.status == 200, f"{path}: {answer.status}"
    return answer.data.decode()


def problems(seen: Observed) -> list[str]:
    """Everything that is not as it should be."""
    found = [*seen.findings.problems, *seen.page_problems]
    if not any("prometheus" in reason for reason in seen.skipped):
        if not seen.findings.alerts_firing:
            found.append("no alert fires, though a part of the events is garbage")
        if not {labels["extraction_id"] for labels in seen.exemplars} & seen.results:
            found.append("no exemplar leads to a document that has a result")
        found += _lint(seen.text)
    found += _exposition(seen.openmetrics)
    found += [f"the page shows {s!r}" for s in seen.secrets if s in seen.page + seen.page_text]
    found += [f"the status shows {s!r}" for s in seen.secrets if s in json.dumps(seen.status)]
    found += _shown(seen)
    return found


def _lint(text: str) -> list[str]:
    """promtool's opinion of ours. Of the client library's own process metrics it is not asked."""
    ours = "\n".join(line for line in text.splitlines() if "process_" not in line)
    try:
        prometheus.promtool("check", "metrics", given=ours + "\n")
    except AssertionError as said:
        return [str(said)]
    return []


def _exposition(openmetrics: str) -> list[str]:
    if not openmetrics.endswith("# EOF\n"):
        return ["the OpenMetrics format is not what was answered"]
    families = list(text_string_to_metric_families(openmetrics))  # type: ignore[no-untyped-call]
    labels = {
        name
        for family in families
        for sample in family.samples
        if sample.exemplar is not None
        for name in sample.exemplar.labels
    }
    return [] if labels == {"extraction_id"} else [f"exemplars have the labels {sorted(labels)}"]


def _shown(seen: Observed) -> list[str]:
    """The page says what is going on under this load."""
    status = seen.status
    wanted = {
        "partitions": status["partitions"],
        "documents in progress": status["documents"],
        "jobs": [job for document in status["documents"] for job in document["jobs"]],
        "a next poll": [
            job
            for document in status["documents"]
            for job in document["jobs"]
            if job["next_poll_seconds"] is not None
        ],
        "dead letters by reason": status["reasons"],
        "dependencies": status["dependencies"],
    }
    found = [f"the status has no {what}" for what, rows in wanted.items() if not rows]
    shown = seen.page_text or seen.page
    for text in ("Partitions", "Gates, breakers, budgets", "event_unparsable", "Jobs by state"):
        if text not in shown:
            found.append(f"the page does not say {text!r}")
    return found
