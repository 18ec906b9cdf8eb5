"""1 to 64 workers and 10 to 1,000,000 documents, by simulation: where the next limit is.

A document goes through stations in order, each first come, first served; times are those that
``tests.bench cost`` and ``efficiency`` measured on one machine (options override them). No clock,
no randomness but the seed's: the same arguments give the same numbers.
"""

from __future__ import annotations

import argparse
import heapq
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

ASSUMPTIONS = (
    "every worker has a core of its own; what it costs per document does not depend on the others",
    "the object store and Kafka scale to their given capacity and no further, without slowing down",
    "the service has a fixed number of slots and log-normal run times; its queue has no bound",
    "documents lie evenly on the partitions; a worker without a partition does nothing",
    "polls cost the worker what is in its CPU per document; poll lag is not modelled",
    "no failures, no throttling, no rebalances; everything is announced at the start",
)


@dataclass(frozen=True, slots=True)
class Capacities:
    worker_ms: float
    """CPU per document of a worker's one core."""
    store_requests: float
    """Requests per document."""
    store_per_s: float
    """Requests per second of the object store."""
    kafka_records: float
    kafka_per_s: float
    slots: int
    run_time_s: float
    sigma: float
    partitions: int


def serve(arrivals: Sequence[float], servers: int, seconds: Sequence[float]) -> list[float]:
    """Departures from a station, in the order of ``arrivals``, which rise."""
    free = [0.0] * servers
    departures = []
    for arrival, taken in zip(arrivals, seconds, strict=True):
        end = max(arrival, free[0]) + taken
        heapq.heapreplace(free, end)
        departures.append(end)
    return departures


def simulate(capacities: Capacities, workers: int, documents: int, seed: int) -> dict[str, Any]:
    """Makespan, throughput, and the share of time that each station was busy."""
    c, rng = capacities, random.Random(seed)
    active = min(workers, c.partitions)
    # Even shares: each worker's CPU is a station of its own, all fed from the start.
    cpu = c.worker_ms / 1000
    arrivals = [(number // active + 1) * cpu for number in range(documents)]
    store_s = c.store_requests / c.store_per_s
    arrivals = serve(arrivals, 1, [store_s] * documents)
    mu = math.log(c.run_time_s) - c.sigma * c.sigma / 2
    runs = [rng.lognormvariate(mu, c.sigma) for _ in range(documents)]
    arrivals = sorted(serve(arrivals, c.slots, runs))
    kafka_s = c.kafka_records / c.kafka_per_s
    arrivals = serve(arrivals, 1, [kafka_s] * documents)
    makespan = arrivals[-1]
    busy = {
        "worker CPU": documents * cpu / active / makespan,
        "object store": documents * store_s / makespan,
        "service slots": sum(runs) / c.slots / makespan,
        "Kafka": documents * kafka_s / makespan,
    }
    limit = max(busy, key=lambda name: busy[name])
    if limit == "worker CPU" and workers > c.partitions:
        limit = "partitions"
    return {
        "workers": workers,
        "documents": documents,
        "seconds": round(makespan, 2),
        "documents_per_s": round(documents / makespan, 1),
        "limit": limit,
        "busy": {name: round(share, 3) for name, share in busy.items()},
    }


def run(given: argparse.Namespace) -> dict[str, Any]:
    capacities = Capacities(
        given.worker_ms,
        given.store_requests,
        given.store_per_s,
        given.kafka_records,
        given.kafka_per_s,
        given.slots,
        given.run_time,
        given.sigma,
        given.partitions,
    )
    counts = [10, 100, 1000, 10_000, 100_000, *([1_000_000] if given.million else [])]
    workers = [1, 2, 4, 8, 16, 32, 64]
    rows = [simulate(capacities, w, n, given.seed) for n in counts for w in workers]
    if given.plots:
        from tests.bench.plots import lines

        lines(
            {
                f"{count:,} documents": [
                    (row["workers"], row["documents_per_s"])
                    for row in rows
                    if row["documents"] == count
                ]
                for count in counts
            },
            given.plots,
            "scale",
            "workers",
            "documents/s (simulated)",
        )
    return {
        "simulated": rows,
        "capacities": {name: getattr(capacities, name) for name in Capacities.__slots__},
        "assumptions": ASSUMPTIONS,
    }


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--worker-ms", type=float, default=8.0)
    parser.add_argument("--store-requests", type=float, default=6.0)
    parser.add_argument("--store-per-s", type=float, default=3500.0, help="AWS: PUTs of a prefix")
    parser.add_argument("--kafka-records", type=float, default=10.0)
    parser.add_argument("--kafka-per-s", type=float, default=50_000.0)
    parser.add_argument("--slots", type=int, default=5000)
    parser.add_argument("--run-time", type=float, default=10.0)
    parser.add_argument("--sigma", type=float, default=1.0)
    parser.add_argument("--partitions", type=int, default=32)
    parser.add_argument("--million", action="store_true", help="1,000,000 documents, too")
