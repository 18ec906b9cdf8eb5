"""CPU and memory per document with a service that answers at once, and memory of jobs in flight."""

from __future__ import annotations

import argparse
import time
from typing import Any

import requests

from tests.bench.harness import (
    ResultCounter,
    Scenario,
    Servers,
    rate,
    rss_mib,
    say,
    scenario,
    servers,
)

GROWTH = "documents a lot, of ten lots; 0: none; 10000: the growth from 10,000 to 100,000 documents"
POLLING = {"first_delay_s": 0.1, "floor_s": 0.05}


def yardstick(made: Scenario, calls: int = 200) -> float:
    """CPU in milliseconds of one call by `requests` on a kept connection, made beside the load:
    what a millisecond of this machine is worth while it runs. It differs by half from minute to
    minute on shared hardware."""
    with requests.Session() as session:
        url = f"{made.pipeline.provider_url}/nothing-here"
        session.get(url, timeout=60)
        before = time.thread_time()
        for _ in range(calls):
            session.get(url, timeout=60)
        return (time.thread_time() - before) / calls * 1000


def cost(running: Servers, documents: int, warm_up: int) -> dict[str, Any]:
    """``documents`` after ``warm_up`` others, one image each; then nine times as many more, for
    the growth of memory (unless there are too many to wait for)."""
    with scenario(running, policies={"default": {"polling": POLLING}}) as made:
        worker = made.start_worker()
        counter = ResultCounter(made.pipeline)
        made.send(warm_up, prefix="warm")
        counter.wait(warm_up, 300)
        before, rss_before = made.cpu(), rss_mib(worker.pid)
        say(f"warm: {rss_before:.0f} MiB")
        made.send(documents, prefix="cost")
        counter.wait(warm_up + documents // 10, 900)
        one_call = yardstick(made)
        counter.wait(warm_up + documents, 900)
        after = made.cpu()
        used = {n: round((after[n] - before[n]) / documents * 1000, 2) for n in after}
        times = counter.times[warm_up:]
        counter.close()
        say(f"{documents}: {rate(times):.0f}/s, {used} ms")
        return {
            "documents": documents,
            "documents_per_s": round(rate(times), 1),
            "cpu_ms_per_document": used["worker"],
            "cpu_ms_per_document_of": used,
            "cpu_ms_per_call_of_requests": round(one_call, 2),
            "rss_mb_before": round(rss_before, 1),
            "rss_mb_after": round(rss_mib(worker.pid), 1),
        }


def growth(running: Servers, documents: int) -> dict[str, Any]:
    """RSS after ``documents`` and after ten times as many, announced in ten equal lots: what is in
    flight at the same time takes memory, too."""
    with scenario(running, policies={"default": {"polling": POLLING}}) as made:
        worker = made.start_worker()
        counter = ResultCounter(made.pipeline)
        made.send(documents, prefix="first")
        counter.wait(documents, 900)
        used = [rss_mib(worker.pid)]
        for lot in range(1, 10):
            made.send(documents, prefix=f"lot-{lot}")
            counter.wait((lot + 1) * documents, 3600)
            counter.seen.clear()
            used.append(rss_mib(worker.pid))
            say(f"{(lot + 1) * documents}: {used[-1]:.0f} MiB")
        counter.close()
        grown = round(used[-1], 1) - round(used[0], 1)
        return {
            f"rss_mb_growth_{documents}_to_{10 * documents}": round(grown, 1),
            "growth_from_to": [documents, 10 * documents],
            "rss_mb_from_to": [round(used[0], 1), round(used[-1], 1)],
            "rss_mb_by_lot": [round(mib, 1) for mib in used],
        }


def in_flight(running: Servers, jobs: int) -> float:
    """RSS in MiB with so many jobs at a service that does not finish them."""
    settings = {
        "worker": {"jobs_per_provider": jobs},
        "kafka": {"in_flight_high": jobs + 512, "in_flight_low": jobs + 256, "window": 4 * jobs},
    }
    policies = {"default": {"polling": {"deadline_s": 3600.0}}}
    with scenario(running, "--run-time", "3000", settings=settings, policies=policies) as made:
        worker = made.start_worker()
        made.send(jobs, prefix="slow")
        deadline = time.monotonic() + 600
        while (running_now := made.stats()["running"]) < jobs:
            assert time.monotonic() < deadline, f"{running_now} of {jobs} submitted"
            time.sleep(0.5)
        time.sleep(10)  # over a round of polls of all of them
        return rss_mib(worker.pid)


def run(given: argparse.Namespace) -> dict[str, Any]:
    with servers() as running:
        result: dict[str, Any] = cost(running, given.documents, given.warm_up)
        if given.growth:
            result |= growth(running, given.growth)
        if given.in_flight:
            result[f"rss_mb_{given.in_flight}_in_flight"] = round(
                in_flight(running, given.in_flight), 1
            )
    return result


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--documents", type=int, default=3000)
    parser.add_argument("--warm-up", type=int, default=300)
    parser.add_argument("--growth", type=int, default=600, help=GROWTH)
    parser.add_argument("--in-flight", type=int, default=5000, help="jobs; 0: not")
