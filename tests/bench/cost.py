"""CPU and memory per document with a service that answers at once."""

from __future__ import annotations

import argparse
from typing import Any

from tests.bench.harness import ResultCounter, environment, rate, rss_mib, say, scenario, servers

POLLING = {"first_delay_s": 0.1, "floor_s": 0.05}


def cost(documents: int = 2000, warm_up: int = 200) -> dict[str, Any]:
    """``documents`` after ``warm_up`` others, one image each."""
    with (
        servers() as running,
        scenario(running, policies={"default": {"polling": POLLING}}) as made,
    ):
        worker = made.start_worker()
        counter = ResultCounter(made.pipeline)
        made.send(warm_up, prefix="warm")
        counter.wait(warm_up, 120)
        before, rss_before = made.cpu(), rss_mib(worker.pid)
        say(f"warm: {rss_before:.0f} MiB")
        made.send(documents, prefix="cost")
        counter.wait(warm_up + documents, 600)
        after = made.cpu()
        times = counter.times[warm_up:]
        counter.close()
        return {
            "cost": {
                "documents": documents,
                "documents_per_s": round(rate(times), 1),
                "cpu_ms_per_document": {
                    name: round((after[name] - before[name]) / documents * 1000, 2)
                    for name in after
                },
                "rss_mib_before": round(rss_before, 1),
                "rss_mib_after": round(rss_mib(worker.pid), 1),
            },
            "environment": environment(),
        }


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--documents", type=int, default=2000)
