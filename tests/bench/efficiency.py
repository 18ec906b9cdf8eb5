"""Share of the service's capacity that is used, against what a user would write instead.

Efficiency = completed/s ÷ (slots ÷ run time) in the steady part (between the 10th and the 90th
percent of all completions, and a whole number of run times long). The service runs ``slots`` jobs
at a time and queues the rest; we may have twice as many jobs there as it has slots. One Kafka, one
S3 server, one topic, one kind of service for all; each contender has the service for itself, fresh.

Peers poll by doubling, so each has a ceiling that is none of the machine's: the jobs that it keeps
in flight ÷ the seconds after which a job is first seen finished (`ceiling_by_polling_per_s`). Who
has a thread per job has 100, and in a further run twice as many as there are slots, where so many
threads make sense; asyncio has twice, and in a further run four times as many. ``--peers`` names
those that are wanted. All are counted in the same way, and peers from their first submit to the
last result too, where that gives more.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from deploy.local.process import ChildProcess
from tests.bench.harness import (
    ResultCounter,
    Scenario,
    Servers,
    cpu_seconds,
    rate_of_waves,
    say,
    scenario,
    servers,
)
from tests.bench.peers.work import PeerSettings, seen_after
from tests.servers import create_topic

THREADS = 100
MAX_THREADS = 400
"""More of them in one process is nothing that anybody would run."""


@dataclass(frozen=True, slots=True)
class Peer:
    """One way to run a peer. In flight are ``places`` jobs, or ``per_slot`` for each slot."""

    module: str
    places: int | None = None
    per_slot: int = 0
    threaded: bool = False

    def in_flight(self, slots: int) -> int | None:
        """None: it is not run with so many slots, because of its threads, or because it would be
        the run with `THREADS` again."""
        if self.places is not None:
            return self.places
        found = self.per_slot * slots
        return None if self.threaded and (found > MAX_THREADS or found == THREADS) else found


PEERS = {
    "blocking": Peer("blocking", places=1),
    "threads": Peer("threads", places=THREADS, threaded=True),
    "threads-2x": Peer("threads", per_slot=2, threaded=True),
    "arroyo": Peer("arroyo_threads", places=THREADS, threaded=True),
    "arroyo-2x": Peer("arroyo_threads", per_slot=2, threaded=True),
    "asyncio": Peer("asynchronous", per_slot=2),
    "asyncio-4x": Peer("asynchronous", per_slot=4),
}
"""``-2x``, ``-4x``: so many in flight as slots times that."""
WARM_UP = 60
"""Documents that a worker has done before the others are announced: it runs already."""
REACHED = 0.97
"""Of the capacity: the service is what bounds it."""
BUSY = 0.8
"""Of a core, on average, in what was counted: it is what bounds it."""
START_S = 10.0
"""What a peer may take to start and join its group before its time begins."""


def worker_settings(slots: int) -> dict[str, Any]:
    in_flight = 2 * slots
    return {
        "worker": {"jobs_per_provider": in_flight, "documents": 128},
        "kafka": {"in_flight_high": in_flight + 256, "in_flight_low": in_flight + 128},
    }


def measure(
    running: Servers, slots: int, run_time_s: float, documents: int, peers: Sequence[str]
) -> dict[str, Any]:
    arguments = ("--slots", str(slots), "--run-time", str(run_time_s))
    tree = worker_settings(slots)
    kafka = tree.pop("kafka")
    with scenario(running, *arguments, settings={**tree, "kafka": kafka}) as made:
        best = slots / run_time_s
        made.start_worker()
        counter = ResultCounter(made.pipeline)
        made.send(WARM_UP, prefix="warm")
        counter.wait(WARM_UP, 60 + 2 * run_time_s)
        before, started = made.cpu(), time.time()
        made.send(documents, prefix="e")
        counter.wait(WARM_UP + documents, 120 + documents / best * 4)
        after = made.cpu()
        times = counter.times[WARM_UP:]
        counter.close()
        per_s = min(rate_of_waves(times, run_time_s), best)  # see `peers_rate`
        result: dict[str, Any] = {
            "completed_per_s": round(per_s, 2),
            "possible_per_s": round(best, 2),
            "efficiency": round(per_s / best, 3),
            "efficiency_with_start_and_end": round(documents / (max(times) - started) / best, 3),
            "documents": documents,
            "cpu_ms_per_document": {
                name: round((after[name] - before[name]) / documents * 1000, 2) for name in after
            },
            "cores": len(os.sched_getaffinity(0)),
            "load": round(os.getloadavg()[0], 1),
            "times": times,
        }
        say(f"{slots}x{run_time_s:g}s: {result['efficiency']} of {best:g}/s")
        assert made.worker is not None
        made.worker.terminate()
        result["peers"] = {
            name: _peer(made, name, in_flight, slots, run_time_s, documents)
            for name in peers
            if (in_flight := PEERS[name].in_flight(slots)) is not None
        }
        for name, peer in result["peers"].items():
            if peer["completed_per_s"]:
                peer["we_are_times"] = round(per_s / peer["completed_per_s"], 1)
            say(f"  {name}: {peer['completed_per_s']}/s, {peer['efficiency']}")
        return result


def _peer(
    made: Scenario, name: str, in_flight: int, slots: int, run_time_s: float, documents: int
) -> dict[str, Any]:
    made.restart_service()
    results = f"{made.pipeline.topics.results}-{name}"
    create_topic(made.pipeline.bootstrap, results, 1)
    ends = time.monotonic() + START_S + max(20.0, 5 * run_time_s)
    with _running(made, name, results, in_flight) as process:
        counter = ResultCounter(made.pipeline, results)
        # What it took to start is not counted among what its documents cost.
        counter.count_for(ends - time.monotonic(), up_to=1)
        before, counted = cpu_seconds(process.pid), len(counter.times)
        counter.count_for(ends - time.monotonic(), up_to=documents)
        used = cpu_seconds(process.pid) - before
        times, stats = sorted(counter.times), made.stats()
        counter.close()
        if not process.running:
            raise AssertionError(f"{name} ended by itself:\n{process.last_lines(20)}")
    possible = slots / run_time_s
    per_s = peers_rate(times, stats["first_submit"], run_time_s, possible)
    return {
        "completed_per_s": round(per_s, 2),
        "efficiency": round(per_s / possible, 3),
        "completed": len(times),
        "in_flight": in_flight,
        "ceiling_by_polling_per_s": round(in_flight / seen_after(run_time_s), 2),
        "cpu_ms_per_document": (
            round(used / (len(times) - counted) * 1000, 2) if len(times) > counted else None
        ),
        "times": times,
    }


def peers_rate(
    times: Sequence[float], first_submit: float | None, run_time_s: float, possible_per_s: float
) -> float:
    """Completed per second by whichever way of counting gives more, for ordered ``times``: from the
    first submit on, or over whole waves in the middle. No more than the service can finish: jobs
    that a peer was late to collect at first, and that it makes up for later, count once."""
    overall = len(times) / (times[-1] - first_submit) if times and first_submit is not None else 0.0
    steady = rate_of_waves(times, run_time_s) if len(times) > 2 * THREADS else 0.0
    return min(max(overall, steady), possible_per_s)


@contextmanager
def _running(made: Scenario, name: str, results: str, concurrency: int) -> Iterator[ChildProcess]:
    pipeline = made.pipeline
    settings = PeerSettings(
        name=f"{name}-{pipeline.group}",
        bootstrap=pipeline.bootstrap,
        topic=pipeline.topics.events,
        results=results,
        provider=f"{pipeline.provider_url}/v1",
        s3=pipeline.s3_endpoint.partition("://")[2] or pipeline.s3_endpoint,
        s3_access_key=pipeline.s3_access_key,
        s3_secret_key=pipeline.s3_secret_key,
        input_bucket=pipeline.input_bucket,
        output_bucket=pipeline.output_bucket,
        concurrency=concurrency,
    )
    process = ChildProcess(
        name,
        [
            sys.executable,
            "-m",
            f"tests.bench.peers.{PEERS[name].module}",
            json.dumps(asdict(settings)),
        ],
        log_file=pipeline.folder / f"{name}.log",
        env=dict(os.environ),
    )
    process.start()
    try:
        yield process
    finally:
        process.kill()


SCENARIOS = {"100x1s": (100, 1.0, 6000), "1000x10s": (1000, 10.0, 6000)}
STRETCH = {"256x1s": (256, 1.0, 8000)}


def run(given: argparse.Namespace) -> dict[str, Any]:
    peers = [] if given.no_peers else given.peers
    custom = given.slots is not None
    if custom:
        name = f"{given.slots}x{given.run_time:g}s"
        wanted = {name: (given.slots, given.run_time, given.documents or 10 * given.slots)}
    else:
        wanted = {n: s for n, s in {**SCENARIOS, **STRETCH}.items() if given.only in (None, n)}
    measured = {}
    with servers() as running:
        for name, (slots, run_time_s, documents) in wanted.items():
            count = given.documents or documents
            use = [] if name in STRETCH else peers
            measured[name] = measure(running, slots, run_time_s, count, use)
    for name, one in measured.items():
        times = {"bundle extractor": one.pop("times")}
        times |= {peer: found.pop("times") for peer, found in one["peers"].items()}
        if given.plots:
            from tests.bench.plots import throughput

            throughput(
                {title: found for title, found in times.items() if found},
                given.plots,
                f"throughput-{name}",
                possible_per_s=one["possible_per_s"],
            )
    return {"measured": measured, **summary(measured)}


def summary(measured: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """What is asked of the whole run: the last keys of the line."""
    shares = {name: one["efficiency"] for name, one in measured.items()}
    peers = {name: one["peers"] for name, one in measured.items() if one["peers"]}
    return {
        "peers": peers,
        "best_peer": {name: best_of(found) for name, found in peers.items()},
        "times_of_peers": {
            name: {peer: one.get("we_are_times") for peer, one in found.items()}
            for name, found in peers.items()
        },
        "efficiency": {n: share for n, share in shares.items() if n not in STRETCH},
        "stretch": {n: share for n, share in shares.items() if n in STRETCH},
        "limited_by": {n: limit(one) for n, one in measured.items()},
    }


def best_of(peers: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Who completed most, and with how many jobs in flight."""
    name, best = max(peers.items(), key=lambda item: float(item[1]["completed_per_s"]))
    told = ("in_flight", "efficiency", "completed_per_s", "we_are_times")
    return {"name": name, **{key: best.get(key) for key in told}}


def limit(one: Mapping[str, Any]) -> str:
    """What keeps a scenario from its capacity, judged by the cores that were used."""
    if one["efficiency"] >= REACHED:
        return "the service's slots"
    used = {n: ms / 1000 * one["completed_per_s"] for n, ms in one["cpu_ms_per_document"].items()}
    cores = one["cores"]
    if used["worker"] >= BUSY:
        return f"the worker's core ({used['worker']:.2f} of one used)"
    total = sum(used.values())
    if total >= BUSY * cores:
        shares = ", ".join(f"{name} {share:.2f}" for name, share in used.items())
        return f"this machine's {cores} cores: {total:.2f} used ({shares})"
    return f"nothing that was counted ({total:.2f} of {cores} cores used; other load {one['load']})"


def names_of_peers(text: str) -> list[str]:
    """:raises argparse.ArgumentTypeError: there is none of such a name."""
    names = text.split(",")
    if unknown := [name for name in names if name not in PEERS]:
        raise argparse.ArgumentTypeError(f"{unknown[0]}: it is none of {', '.join(PEERS)}")
    return names


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", choices=[*SCENARIOS, *STRETCH])
    parser.add_argument("--slots", type=int)
    parser.add_argument("--run-time", type=float, default=1.0)
    parser.add_argument("--documents", type=int)
    parser.add_argument(
        "--peers",
        type=names_of_peers,
        default=list(PEERS),
        help=f"of {','.join(PEERS)}; each takes about half a minute; default: all",
    )
    parser.add_argument("--no-peers", action="store_true")
