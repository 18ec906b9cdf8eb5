"""What the last line of `tests.bench efficiency` says."""

from __future__ import annotations

from typing import Any

import pytest

from tests.bench.efficiency import limit, summary


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
    threads = {"completed_per_s": 9.9, "efficiency": 0.099, "we_are_times": 9.6}
    measured = {
        "1000x10s": {**found(0.95, 95.0), "peers": {"threads": threads}},
        "256x1s": found(0.5, 128.0, worker=8.0),
    }
    said = summary(measured)
    assert said["efficiency"] == {"1000x10s": 0.95}
    assert said["stretch"] == {"256x1s": 0.5}
    assert said["stretch_limited_by"]["256x1s"].startswith("the worker's core")
    assert said["times_of_peers"] == {"1000x10s": {"threads": 9.6}}
    assert said["peers"]["1000x10s"]["threads"]["efficiency"] == 0.099
