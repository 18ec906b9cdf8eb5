"""What the last line of `tests.bench efficiency` says."""

from __future__ import annotations

import argparse
import importlib
import itertools
from typing import Any

import pytest

from tests.bench.efficiency import (
    PEERS,
    SCENARIOS,
    arguments,
    best_of,
    limit,
    peers_rate,
    summary,
)
from tests.bench.peers.work import CEILING_S, FIRST_DELAY_S, seen_after


def found(efficiency: float, per_s: float, **cpu_ms: float) -> dict[str, Any]:
    return {
        "efficiency": efficiency,
        "completed_per_s": per_s,
        "cpu_ms_per_document": {"kafka": 0.0, "s3": 0.0, "worker": 0.0, **cpu_ms},
        "cores": 2,
        "load": 9.9,
        "peers": {},
    }


@pytest.mark.parametrize(
    ("one", "says"),
    [
        (found(0.99, 250.0, worker=3.5), "the service's slots"),
        (found(0.4, 100.0, worker=9.0, s3=1.0), "the worker's core (0.90 of one used)"),
        (found(0.4, 100.0, worker=7.0, s3=9.0, kafka=3.0), "this machine's 2 cores: 1.90 used"),
        (found(0.4, 50.0, worker=7.0, s3=9.0), "nothing that was counted (0.80 of 2 cores used"),
    ],
)
def test_the_limit_is_named_with_the_cores_that_were_used(one: dict[str, Any], says: str) -> None:
    assert limit(one).startswith(says)


def test_the_last_keys_hold_the_shares_the_peers_and_how_many_times_as_much_we_do() -> None:
    threads = {
        "completed_per_s": 9.9,
        "efficiency": 0.099,
        "we_are_times": 9.6,
        "in_flight": 100,
    }
    measured = {
        "1000x10s": {**found(0.95, 95.0), "peers": {"threads": threads}},
        "256x1s": found(0.5, 128.0, worker=8.0),
    }
    said = summary(measured)
    assert said["efficiency"] == {"1000x10s": 0.95}
    assert said["stretch"] == {"256x1s": 0.5}
    assert said["limited_by"]["256x1s"].startswith("the worker's core")
    assert said["limited_by"]["1000x10s"].startswith("nothing that was counted")
    assert said["best_peer"] == {"1000x10s": {"name": "threads", **threads}}
    assert said["times_of_peers"] == {"1000x10s": {"threads": 9.6}}
    assert said["peers"]["1000x10s"]["threads"]["efficiency"] == 0.099


def test_the_best_peer_is_who_completed_most() -> None:
    peers: dict[str, dict[str, Any]] = {
        "threads": {"completed_per_s": 66.0, "efficiency": 0.66, "in_flight": 100},
        "asyncio-4x": {"completed_per_s": 91.0, "efficiency": 0.91, "in_flight": 400},
        "blocking": {"completed_per_s": 0.0, "efficiency": 0.0, "in_flight": 1},
    }
    best = best_of(peers)
    assert (best["name"], best["in_flight"], best["efficiency"]) == ("asyncio-4x", 400, 0.91)


@pytest.mark.parametrize(
    ("slots", "expected"),
    [
        (
            100,
            {
                "blocking": 1,
                "threads": 100,
                "threads-2x": 200,
                "arroyo": 100,
                "arroyo-2x": 200,
                "asyncio": 200,
                "asyncio-4x": 400,
            },
        ),
        (
            1000,
            {
                "blocking": 1,
                "threads": 100,
                "arroyo": 100,
                "asyncio": 2000,
                "asyncio-4x": 4000,
            },
        ),
        # Twice as many would be the 100 again.
        (50, {"blocking": 1, "threads": 100, "arroyo": 100, "asyncio": 100, "asyncio-4x": 200}),
    ],
)
def test_peers_have_as_many_jobs_in_flight_as_we_and_threads_only_where_it_makes_sense(
    slots: int, expected: dict[str, int]
) -> None:
    found = {name: peer.in_flight(slots) for name, peer in PEERS.items()}
    assert {name: count for name, count in found.items() if count is not None} == expected


def test_every_peer_is_a_module() -> None:
    for peer in PEERS.values():
        assert importlib.util.find_spec(f"tests.bench.peers.{peer.module}")


def test_all_peers_run_unless_some_are_named() -> None:
    parser = argparse.ArgumentParser()
    arguments(parser)
    assert parser.parse_args([]).peers == list(PEERS)
    assert parser.parse_args(["--peers", "threads,asyncio"]).peers == ["threads", "asyncio"]
    with pytest.raises(SystemExit):
        parser.parse_args(["--peers", "threads,celery"])


@pytest.mark.parametrize(("run_s", "seen_s"), [(0.4, 0.5), (1.0, 1.5), (10.0, 15.5), (16.0, 23.5)])
def test_a_peer_sees_a_job_at_the_first_poll_after_its_end(run_s: float, seen_s: float) -> None:
    assert seen_after(run_s) == seen_s
    delays = (min(FIRST_DELAY_S * 2**n, CEILING_S) for n in itertools.count())
    assert next(age for age in itertools.accumulate(delays) if age >= run_s) == seen_s


def test_the_peers_ceiling_lies_over_the_slots_where_they_have_twice_as_many_in_flight() -> None:
    """With 100 threads at 100 slots it does not: that figure says nothing of the machine."""
    for slots, run_s, _ in SCENARIOS.values():
        assert 2 * slots / seen_after(run_s) > slots / run_s
    assert 100 / seen_after(1.0) == pytest.approx(66.7, abs=0.1)


def test_a_peer_that_makes_up_for_a_late_start_is_counted_up_to_what_is_possible() -> None:
    late = [20 + number / 200 for number in range(4000)]  # a service of 100/s had them all by 20
    assert peers_rate(late, 0.0, 10.0, 100.0) == 100.0


def test_a_peer_is_counted_by_the_way_that_gives_it_more() -> None:
    steady = [number / 50 for number in range(2000)]
    assert peers_rate(steady, -40.0, 1.0, 100.0) == pytest.approx(50, rel=0.01)
    assert peers_rate([5.0, 10.0], 0.0, 1.0, 100.0) == pytest.approx(0.2)
    assert peers_rate([], None, 1.0, 100.0) == 0.0
