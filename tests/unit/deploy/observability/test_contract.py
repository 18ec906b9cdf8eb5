"""Dashboards, rules, their tests and the documents use only what the metrics contract has."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from consumers.metrics import Metrics, Spec
from deploy.extractor.metrics import Metrics as ServiceMetrics
from tests.observe.expressions import OBSERVABILITY, expressions, rules

ROOT = Path(__file__).parents[4]
TEXTS = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").glob("**/*.md")),
    *sorted(OBSERVABILITY.glob("*.md")),
    *sorted(OBSERVABILITY.glob("prometheus/**/*.yml")),
    *sorted(OBSERVABILITY.glob("grafana/**/*.json")),
    *sorted((ROOT / "deploy" / "k8s").glob("**/*.y*ml")),
]
SUFFIXES = ("_bucket", "_sum", "_count")
GIVEN = {"job", "instance", "le", "alertname", "alertstate"}
"""Labels that Prometheus and the client library add."""

NAME = re.compile(r"(?<![\w:/-])(?:bundles|process)_[a-z0-9_]+\b")
SELECTOR = re.compile(r"((?:bundles|process)_[a-z0-9_]+)\{([^}]*)\}")
MATCHER = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"")
GROUPED = re.compile(r"\bby \(([^)]*)\)")
COUNTER = re.compile(r"(?<!\w)(bundles_\w+_total)\b")
RATED = re.compile(r"\b(?:rate|increase)\((bundles_\w+)(?:\{[^}]*\})?\[")

CONTRACTS = {"consumers/metrics.py", "deploy/extractor/metrics.py"}
"""Of the worker and of the self-hosted service: nothing else may make a metric."""
MAKERS = {"Counter", "Gauge", "Histogram", "Summary", "Info", "Enum", "Metric"}

RAW_COUNTERS = {
    "bundles_temp_swept_bytes_total": "counted once, before the first scrape: a rate sees nothing",
}


@pytest.fixture(scope="module")
def contract() -> dict[str, Spec]:
    return {spec.name: spec for spec in Metrics().specs}


def spec_of(name: str, contract: dict[str, Spec]) -> Spec | None:
    """The spec whose series ``name`` is."""
    if name in contract and contract[name].kind != "histogram":
        return contract[name]
    for suffix in SUFFIXES:
        base = name.removesuffix(suffix)
        if base != name and base in contract and contract[base].kind == "histogram":
            return contract[base]
    return None


@pytest.mark.parametrize("file", TEXTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_every_name_in_documents_and_rules_is_in_the_contract(
    file: Path, contract: dict[str, Spec]
) -> None:
    said = set(NAME.findall(file.read_text("utf-8")))
    documents = file.suffix == ".md"
    unknown = {
        name
        for name in said
        if spec_of(name, contract) is None and not (documents and name in contract)
    }
    assert not unknown


def test_every_expression_names_only_labels_that_its_metric_has(
    contract: dict[str, Spec],
) -> None:
    wrong = []
    for expression in expressions():
        for name, matchers in SELECTOR.findall(expression.text):
            spec = spec_of(name, contract)
            assert spec is not None, f"{expression.where}: {name}"
            unknown = set(MATCHER.findall(matchers)) - {*spec.labels} - GIVEN
            wrong += [f"{expression.where}: {name} has no label {label}" for label in unknown]
        wrong += _wrong_groups(expression.where, expression.text, contract)
    assert not wrong


def _wrong_groups(where: str, text: str, contract: dict[str, Spec]) -> Iterator[str]:
    """Grouping by a label that none of the expression's metrics has gives one nameless group."""
    known = set(GIVEN)
    for name in NAME.findall(text):
        spec = spec_of(name, contract)
        known |= set(spec.labels) if spec else set()
    for recorded in re.findall(r"\b([a-z_]+):bundles_\w+:\w+", text):
        known |= {"job", *recorded.split("_")}
    for names in GROUPED.findall(text):
        for label in (part.strip() for part in names.split(",")):
            if label and label not in known:
                yield f"{where}: no metric of it has the label {label}"


def test_counters_are_only_looked_at_as_rates(contract: dict[str, Spec]) -> None:
    raw = {
        name
        for expression in expressions()
        for name in COUNTER.findall(expression.text)
        if name not in RATED.findall(expression.text)
    }
    assert raw == set(RAW_COUNTERS)


def test_everything_that_is_measured_is_shown_or_watched(contract: dict[str, Spec]) -> None:
    shown = {
        spec.name
        for expression in expressions()
        for name in NAME.findall(expression.text)
        if (spec := spec_of(name, contract)) is not None
    }
    ours = {name for name in contract if name.startswith("bundles_")}
    assert ours <= shown


def test_every_recorded_series_is_recorded_and_used() -> None:
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    used = {
        name
        for expression in expressions()
        for name in re.findall(r"\b[a-z_]+:bundles_\w+:\w+", expression.text)
    }
    assert used <= recorded
    for name in recorded:
        assert re.fullmatch(r"(job|job_[a-z]+):bundles_\w+:\w+", name), name
    assert recorded - used == {
        # For people who ask: what they cost is small, and a week of them is quick to draw.
        "job:bundles_store_errors:ratio_rate5m",
        "job:bundles_end_to_end_seconds:p95_rate5m",
        "job:bundles_queue_wait_seconds:p95_rate5m",
    }


def test_metrics_are_made_in_the_contracts_and_nowhere_else() -> None:
    """Otherwise METRICS.md would not list it, and nothing would hold its labels to a bound."""
    makers = set()
    for package in ("consumers", "deploy", "schemas", "sinks"):
        for file in (ROOT / package).rglob("*.py"):
            if _makes_metrics(ast.parse(file.read_text("utf-8"))):
                makers.add(str(file.relative_to(ROOT)))
    assert makers == CONTRACTS


def _makes_metrics(tree: ast.AST) -> bool:
    """Whether a module calls, or makes a class of its own from, one of the client library's."""
    made_by = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("prometheus_client"):
            imported = {(alias.asname or alias.name): alias.name for alias in node.names}
            made_by |= {
                here
                for here, name in imported.items()
                if name in MAKERS or name.endswith("MetricFamily")
            }
        elif isinstance(node, ast.Import) and any(
            alias.name.split(".")[0] == "prometheus_client" for alias in node.names
        ):
            return True
    used: list[ast.expr] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            used.append(node.func)
        elif isinstance(node, ast.ClassDef):
            used += node.bases
    return any(isinstance(name, ast.Name) and name.id in made_by for name in used)


@pytest.mark.parametrize(
    ("source", "makes"),
    [
        ("from prometheus_client import Counter\nx = Counter('a', 'b')", True),
        ("from prometheus_client import Gauge as G\nclass X(G): pass", True),
        ("import prometheus_client", True),
        ("from prometheus_client.core import GaugeMetricFamily as F\nx = F('a', 'b')", True),
        ("from prometheus_client import Gauge\ndef f(x: Gauge): x.set(1)", False),
        ("from collections import Counter\nx = Counter()", False),
    ],
)
def test_what_makes_a_metric_is_told_from_what_does_not(source: str, makes: bool) -> None:
    assert _makes_metrics(ast.parse(source)) == makes


def test_metrics_of_both_contracts_are_in_the_reference(contract: dict[str, Spec]) -> None:
    text = (OBSERVABILITY / "METRICS.md").read_text("utf-8")
    listed = set(re.findall(r"^\| `(\w+)` \|", text, re.M))
    served = {family.name for family in ServiceMetrics().registry.collect()}
    assert {name for name in listed if not name.startswith("extractor_")} == set(contract)
    of_the_service = {name for name in listed if name.startswith("extractor_")}
    assert {name.removesuffix("_total") for name in of_the_service} == served
