"""1 to 64 workers and 10 to 1,000,000 documents, by simulation: where the next limit is.

This is a queueing model, no run of the workers' code: a document goes through stations in order,
each first come, first served. What it costs at a station
was measured by ``tests.bench service_times`` (the file is checked in); how much of each there is,
is an assumption and an option. No clock, no randomness but the seed's: the same arguments give the
same numbers.

How far the model is off is told where it can be: ``simulated_one_worker_per_s`` is what it says of
the run in which the service times were taken, ``measured_one_worker_per_s`` what that run did, and
``simulated_off_measured`` the difference as a share of the latter. Null: the file does not say.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.bench.harness import rate
from tests.bench.service_times import DOCUMENTS, FILE, JOBS, RUN_TIME_S, ServiceTimes

ASSUMPTIONS = (
    "a worker has one core for itself and half of one for its sandboxes; a document costs it what "
    "was measured, however many others there are",
    "object store and Kafka have so many cores as given, and cost per request what the local "
    "servers did; they share load evenly and do not slow down",
    "the service has a fixed number of slots (the quota), log-normal run times, an endless queue",
    "documents lie evenly on the partitions; a worker without a partition does nothing",
    "polls are as many as when it was measured; poll lag is not modelled",
    "no failures, no throttling, no rebalances; everything is announced at the start",
)
FULL_SHARE = 0.8
"""Of its ceiling at least, or it is not the station that bounds the throughput."""
FEW = "too few documents"


@dataclass(frozen=True, slots=True)
class Site:
    """What there is of everything, whatever the number of workers."""

    store_cores: int = 4
    kafka_cores: int = 3
    slots: int = 5000
    """Jobs that the service runs at a time."""
    run_time_s: float = 10.0
    """Mean of a job."""
    sigma: float = 1.0
    """Shape of the log-normal distribution."""
    partitions: int = 32
    jobs_per_worker: int = 2000
    """`worker.jobs_per_provider`."""


def worker_s(times: ServiceTimes) -> float:
    """Seconds of a worker for a document."""
    return max(times.worker_cpu_ms, 2 * times.sandbox_cpu_ms) / 1000


def ceilings(times: ServiceTimes, site: Site, workers: int) -> dict[str, float]:
    """Documents per second that each station could do at most, by what would be the limit."""
    per_worker = 1 / worker_s(times)
    found = {
        "worker CPU": workers * per_worker,
        "Kafka partitions": site.partitions * per_worker,
        "jobs in flight per worker": min(workers, site.partitions)
        * site.jobs_per_worker
        / site.run_time_s,
        "object store requests": 1000
        * site.store_cores
        / (times.store_requests * times.store_cpu_ms_per_request),
        "Kafka brokers": 1000
        * site.kafka_cores
        / (times.kafka_records * times.kafka_cpu_ms_per_record),
        "provider quota": site.slots / site.run_time_s,
    }
    if workers < site.partitions:
        del found["Kafka partitions"]
    elif workers > site.partitions:
        del found["worker CPU"]
    return found


def limits(times: ServiceTimes, site: Site, workers: int) -> tuple[str, str]:
    """What is the limit, and what would be if there were more of that."""
    found = ceilings(times, site, workers)
    first, second = sorted(found, key=lambda name: found[name])[:2]
    return first, second


def serve(arrivals: Sequence[float], servers: int, seconds: Sequence[float]) -> list[float]:
    """Departures from a station, in the order of ``arrivals``, which rise."""
    free = [0.0] * servers
    departures = []
    for arrival, taken in zip(arrivals, seconds, strict=True):
        end = max(arrival, free[0]) + taken
        heapq.heapreplace(free, end)
        departures.append(end)
    return departures


def simulate(
    times: ServiceTimes, site: Site, workers: int, documents: int, seed: int
) -> dict[str, Any]:
    """Throughput in the steady part, and the limit: the station with the lowest ceiling, if that is
    reached."""
    rng = random.Random(seed)
    active = min(workers, site.partitions)
    # Even shares: each worker's CPU is a station of its own, all fed from the start.
    arrivals = [(number // active + 1) * worker_s(times) for number in range(documents)]
    store_s = times.store_requests * times.store_cpu_ms_per_request / 1000
    arrivals = sorted(serve(arrivals, site.store_cores, [store_s] * documents))
    mu = math.log(site.run_time_s) - site.sigma * site.sigma / 2
    runs = [rng.lognormvariate(mu, site.sigma) for _ in range(documents)]
    places = min(site.slots, active * site.jobs_per_worker)
    arrivals = sorted(serve(arrivals, places, runs))
    kafka_s = times.kafka_records * times.kafka_cpu_ms_per_record / 1000
    ends = serve(arrivals, site.kafka_cores, [kafka_s] * documents)
    per_s = rate(ends)
    limit, next_limit = limits(times, site, workers)
    filled = per_s >= FULL_SHARE * ceilings(times, site, workers)[limit]
    return {
        "workers": workers,
        "documents": documents,
        "seconds": round(max(ends), 2),
        "documents_per_s": round(per_s, 1),
        "limit": limit if filled else FEW,
        "next_limit": next_limit if filled else limit,
    }


def one_worker(
    times: ServiceTimes, measured: Mapping[str, Any], seed: int
) -> dict[str, float | None]:
    """One worker on the machine of the measurement: simulated, measured, and how far apart."""
    cores = measured["environment"]["cores"]
    # Endless slots, all jobs equally long. The model gives each station cores of its own; on this
    # machine they are the same, so what all stations need of them together is a bound, too.
    site = Site(
        store_cores=cores,
        kafka_cores=cores,
        slots=10 * JOBS,
        run_time_s=RUN_TIME_S,
        sigma=0.0,
        jobs_per_worker=JOBS,
    )
    documents = measured.get("documents", DOCUMENTS)
    simulated = simulate(times, site, 1, documents, seed)["documents_per_s"]
    simulated = round(min(simulated, 1000 * cores / cpu_ms_of_all(measured["per_document"])), 1)
    done = measured.get("one_worker_per_s")
    return {
        "simulated_one_worker_per_s": simulated,
        "measured_one_worker_per_s": done,
        "simulated_off_measured": round(abs(simulated / done - 1), 3) if done else None,
    }


def cpu_ms_of_all(document: Mapping[str, float]) -> float:
    """Milliseconds of CPU for one document at all stations; the extraction service's are not
    known."""
    return (
        document["worker_cpu_ms"]
        + document["sandbox_cpu_ms"]
        + document["store_requests"] * document["store_cpu_ms_per_request"]
        + document["kafka_records"] * document["kafka_cpu_ms_per_record"]
    )


WORKERS = (1, 2, 4, 8, 16, 32, 64)


def run(given: argparse.Namespace) -> dict[str, Any]:
    times = ServiceTimes.load(given.times)
    site = Site(**{name: getattr(given, name) for name in asdict(Site())})
    counts = [10**n for n in range(1, 7) if 10**n <= given.documents_up_to]
    rows = [simulate(times, site, w, n, given.seed) for n in counts for w in WORKERS]
    possible = {workers: ceilings(times, site, workers) for workers in WORKERS}
    measured = json.loads(given.times.read_text())
    if given.plots:
        notes = [
            *ASSUMPTIONS,
            f"given: {', '.join(f'{k} {v}' for k, v in asdict(site).items())}",
            f"measured {measured['date']} on {measured['machine']['processor']}: "
            f"{', '.join(f'{k} {v}' for k, v in asdict(times).items())}",
        ]
        _draw(rows, possible, notes, given.plots)
    return {
        "assumptions": ASSUMPTIONS,
        "site": asdict(site),
        "measured": measured,
        "simulated": rows,
        "ceilings": {
            workers: {name: round(found[name], 1) for name in sorted(found, key=found.__getitem__)}
            for workers, found in possible.items()
        },
        "limits": {workers: limits(times, site, workers)[0] for workers in WORKERS},
        **one_worker(times, measured, given.seed),
    }


def _draw(
    rows: Sequence[dict[str, Any]],
    possible: dict[int, dict[str, float]],
    notes: Sequence[str],
    folder: Path,
) -> None:
    from tests.bench.plots import lines

    simulated: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        title = f"{row['documents']:,} documents"
        simulated.setdefault(title, []).append((row["workers"], row["documents_per_s"]))
    bounds: dict[str, list[tuple[float, float]]] = {}
    for workers, of_stations in possible.items():
        for name, per_s in of_stations.items():
            bounds.setdefault(name, []).append((workers, per_s))
    lines(
        simulated,
        folder,
        "scale",
        "workers",
        "documents/s (simulated)",
        bounds=bounds,
        notes=notes,
    )


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--times", type=Path, default=FILE, help="what service_times measured")
    parser.add_argument("--documents-up-to", type=int, default=1_000_000)
    for name, value in asdict(Site()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
