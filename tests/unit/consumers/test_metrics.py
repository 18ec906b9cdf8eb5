"""The metrics contract: what it promises of itself, and that code sets all of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as openmetrics

from consumers import metrics as metrics_module
from consumers.metrics import MAX_EXEMPLAR_CHARACTERS, SERVICE_FAULTS, Metrics, exemplar, fault_of
from schemas.reasons import Reason

CONSUMERS = Path(__file__).parents[3] / "consumers"


@pytest.fixture(scope="module")
def metrics() -> Metrics:
    return Metrics()


def attributes(metrics: Metrics) -> dict[str, Counter | Gauge | Histogram]:
    return {
        name: value
        for name, value in vars(metrics).items()
        if isinstance(value, Counter | Gauge | Histogram)
    }


def used_in_code() -> Iterator[tuple[str, str]]:
    """(attribute of `Metrics`, where) for each use outside of the contract itself."""
    for file in CONSUMERS.rglob("*.py"):
        if file.name == "metrics.py" or file.parent.name == "cli":
            continue
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Attribute) and _is_metrics(node.value):
                yield node.attr, f"{file.relative_to(CONSUMERS)}:{node.lineno}"


def _is_metrics(node: ast.expr) -> bool:
    """``metrics``, ``self._metrics``, ``services.metrics``, ``job.services.metrics`` ..."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in ("metrics", "_metrics")
    return False


def test_every_metric_is_set_by_the_code(metrics: Metrics) -> None:
    used = {name for name, _ in used_in_code()}
    assert not sorted(attributes(metrics).keys() - used)


def test_the_code_uses_no_metric_that_is_not_in_the_contract(metrics: Metrics) -> None:
    known = attributes(metrics).keys() | set(dir(Metrics)) | {"registry", "specs"}
    assert not [f"{where}: {name}" for name, where in used_in_code() if name not in known]


def test_names_say_prefix_unit_and_type(metrics: Metrics) -> None:
    ours = [spec for spec in metrics.specs if not spec.name.startswith("process_")]
    for spec in ours:
        assert spec.name.startswith("bundles_"), spec
        assert spec.name.endswith("_total") == (spec.kind == "counter"), spec
        if spec.unit in ("seconds", "bytes") and spec.kind != "counter":
            assert spec.unit in spec.name, spec
        assert spec.meaning.endswith("."), spec
        assert not {"extraction_id", "bundle_id", "document_id", "job_id", "key"} & {*spec.labels}
    assert len({spec.name for spec in ours}) == len(ours)


def test_what_is_documented_is_what_is_exposed(metrics: Metrics) -> None:
    exposed = {}
    for family in metrics.registry.collect():
        suffix = "_total" if family.type == "counter" else ""
        exposed[family.name + suffix] = family.type
    documented = {spec.name: spec.kind for spec in metrics.specs}
    assert exposed == documented


def test_the_first_failure_of_a_known_kind_already_makes_a_rate() -> None:
    metrics = Metrics()
    metrics.know_provider("selfhosted")
    metrics.know_dependency("selfhosted", ["submit"])
    metrics.know_topics("results")
    series = {
        line.split("{")[0].split(" ")[0]
        for line in generate_latest(metrics.registry).decode().splitlines()
        if not line.startswith("#")
    }
    # A histogram has its count from the start, and a metric without labels is always there.
    missing = {
        spec.name
        for spec in metrics.specs
        if spec.name not in series and f"{spec.name}_count" not in series
    }
    # By partition or pool: there as soon as there is one.
    assert missing == {
        "bundles_consumer_lag_records",
        "bundles_consumer_lag_seconds",
        "bundles_pool_queued",
        "bundles_pool_running",
        "bundles_pool_threads",
    }


def test_every_reason_has_its_dead_letter_series_once() -> None:
    text = generate_latest(Metrics().registry).decode()
    for reason in Reason:
        lines = [
            line
            for line in text.splitlines()
            if line.startswith("bundles_dead_letters_total{") and f'reason="{reason.value}"' in line
        ]
        assert len(lines) == 1, reason
        assert lines[0].endswith(" 0.0")
        assert f'fault="{fault_of(reason)}"' in lines[0]


def test_a_sender_cannot_spend_the_error_budget() -> None:
    senders = {Reason.NOT_A_PDF, Reason.ENCRYPTED, Reason.EVENT_UNPARSABLE, Reason.SOURCE_MISSING}
    assert not senders & SERVICE_FAULTS
    assert {Reason.DEADLINE, Reason.PROVIDER_FAILED, Reason.INTERNAL_ERROR} <= SERVICE_FAULTS


def test_exemplars_come_out_in_the_openmetrics_format() -> None:
    metrics = Metrics()
    metrics.end_to_end.labels("extracted").observe(3.0, exemplar("an-extraction-id"))
    text = openmetrics(metrics.registry).decode()  # type: ignore[no-untyped-call]
    assert '# {extraction_id="an-extraction-id"} 3.0' in text


@pytest.mark.parametrize("identifier", [None, "", "x" * MAX_EXEMPLAR_CHARACTERS])
def test_an_id_that_cannot_be_an_exemplar_is_left_out(identifier: str | None) -> None:
    Metrics().queue_wait.observe(1.0, exemplar(identifier))
    assert exemplar(identifier) is None


def test_two_workers_in_one_process_do_not_share_series() -> None:
    first, second = Metrics(CollectorRegistry()), Metrics(CollectorRegistry())
    first.events_received.inc()
    assert second.registry.get_sample_value("bundles_events_received_total") == 0.0


@pytest.mark.parametrize("amounts", [[0.0, 0.05, 0.050001, 0.25, 21600, 1e9], [-1.0], []])
def test_our_histogram_counts_as_the_librarys(amounts: list[float]) -> None:
    samples = []
    for kind in (metrics_module._Histogram, Histogram):
        one = kind("waits", "x", ("a",), registry=None, buckets=metrics_module.WAITS)
        for amount in amounts:
            one.labels("b").observe(amount, {"extraction_id": "x"})
        (family,) = one.collect()
        samples.append(
            [
                (s.name, s.labels, s.value, s.exemplar and (s.exemplar.labels, s.exemplar.value))
                for s in family.samples
            ]
        )
    assert samples[0] == samples[1]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(metrics_module._Counter, Counter), (metrics_module._Gauge, Gauge)],
    ids=["counter", "gauge"],
)
def test_our_counters_and_gauges_count_as_the_librarys(
    ours: type[Counter] | type[Gauge], theirs: type[Counter] | type[Gauge]
) -> None:
    samples = []
    for kind in (ours, theirs):
        one = kind("things", "x", ("a",), registry=None)
        one.labels("b").inc()
        one.labels("b").inc(2.5)
        one.labels("c").inc(0)
        if isinstance(one, Gauge):
            one.labels("c").dec(4)
        else:
            one.labels("b").inc(1, {"extraction_id": "x"})
            with pytest.raises(ValueError, match="non-negative"):
                one.labels("b").inc(-1)
        (family,) = one.collect()
        samples.append(
            [(s.name, s.labels, s.value) for s in family.samples if "created" not in s.name]
        )
    assert samples[0] == samples[1]
