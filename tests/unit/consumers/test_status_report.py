"""Ages and lags of partitions, as the status page and the gauges tell them."""

from __future__ import annotations

from dataclasses import replace

from consumers.gauges import Gauges
from consumers.metrics import Metrics
from consumers.runtime.status import PartitionStatus
from consumers.status_report import LagClock, PartitionRow
from tests.observe.sample import busy, idle

NOW = 1_760_000_000.0
STATUS = PartitionStatus(
    topic="events",
    partition=0,
    epoch=1,
    committed=10,
    position=10,
    lag=0,
    in_flight=0,
    done_ahead=0,
    window_fullness=0.0,
    oldest_in_flight_offset=None,
    oldest_in_flight_seconds=0.0,
    oldest_in_flight_timestamp_ms=None,
    paused=None,
)
ROW = PartitionRow("events", 0, 7, 40.0, 2, 30.0, 0, 10, 12, 0.5, None)


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_a_record_in_work_is_as_old_as_its_timestamp() -> None:
    taken = replace(STATUS, in_flight=1, oldest_in_flight_timestamp_ms=int(NOW * 1000) - 90_000)
    assert LagClock().age(taken, 1, NOW) == 90.0


def test_without_a_timestamp_it_is_as_old_as_its_work() -> None:
    taken = replace(STATUS, in_flight=1, oldest_in_flight_seconds=12.0)
    assert LagClock().age(taken, 1, NOW) == 12.0


def test_records_that_nobody_takes_in_get_older_all_the_same() -> None:
    clock = LagClock()
    assert clock.age(STATUS, 5, NOW) == 0.0
    assert clock.age(STATUS, 5, NOW + 60) == 60.0
    assert clock.age(STATUS, 0, NOW + 61) == 0.0
    assert clock.age(STATUS, 5, NOW + 62) == 0.0


def test_a_partition_that_comes_back_starts_anew() -> None:
    clock = LagClock()
    clock.age(STATUS, 5, NOW)
    clock.keep_only(set())
    assert clock.age(STATUS, 5, NOW + 60) == 0.0


def test_ages_go_on_while_the_report_stands_still() -> None:
    metrics = Metrics()
    report = replace(idle(NOW), partitions=(ROW,))
    Gauges(metrics).update(report, now=NOW + 100, loop_age=100.0)
    assert value(metrics, "bundles_oldest_uncommitted_seconds") == 140.0
    assert value(metrics, "bundles_oldest_inflight_seconds") == 130.0
    assert value(metrics, "bundles_loop_heartbeat_age_seconds") == 100.0


def test_the_lag_of_a_partition_that_left_is_no_longer_told() -> None:
    metrics = Metrics()
    gauges = Gauges(metrics)
    gauges.update(replace(idle(NOW), partitions=(ROW,)), now=NOW, loop_age=0.0)
    assert value(metrics, "bundles_consumer_lag_records", topic="events", partition="0") == 7.0
    gauges.update(idle(NOW), now=NOW, loop_age=0.0)
    for name in ("bundles_consumer_lag_records", "bundles_consumer_lag_seconds"):
        assert value(metrics, name, topic="events", partition="0") is None
    assert value(metrics, "bundles_oldest_uncommitted_seconds") == 0.0


def test_limits_stand_beside_what_they_limit() -> None:
    metrics = Metrics()
    Gauges(metrics).update(busy(NOW), now=NOW, loop_age=0.0)
    assert value(metrics, "bundles_document_places") == 64
    assert value(metrics, "bundles_document_places_used") == 60
    assert value(metrics, "bundles_document_places_waiting") == 12_000
    assert value(metrics, "bundles_temp_limit_bytes") == 4.3e9
    assert value(metrics, "bundles_dead_letter_storm") == 1
    assert value(metrics, "bundles_intake_paused", cause="in_flight") == 1
    assert value(metrics, "bundles_intake_paused", cause="window") == 0
    assert value(metrics, "bundles_breaker_open", dependency="source") == 1
    assert value(metrics, "bundles_breaker_open", dependency="store") == 0
