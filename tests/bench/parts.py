"""Whether the causes of a document's time add up to what an observer of Kafka sees.

Of each document: the sum of the causes in its ledger line ``ended``, without the cleaning up after
the result, against the time from the event's timestamp to that which the broker gave the result
when it appended it. ``unexplained_share`` is of all documents together, where too much of one and
too little of another cancel; ``unexplained_share_absolute`` adds the differences up without their
signs, so it is never less: the goal is for that one. Everything else the worker says about latency
rests on this.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deploy.demo.count import read_topic
from tests.bench.harness import ResultCounter, Scenario, percentile, say, scenario, servers

SHORTEST_DRAWN_S = 0.01
"""Causes that hardly any document spends so long in are left out of the plot."""


def announced_at(made: Scenario) -> dict[str, float]:
    """Timestamp of each bundle's event, seconds since 1970."""
    pipeline = made.pipeline
    return {
        json.loads(record.value() or b"{}")["bundle_id"]: record.timestamp()[1] / 1000
        for record in read_topic(pipeline.kafka_client, pipeline.topics.events)
    }


def compared(
    ended: Sequence[dict[str, Any]], sent: dict[str, float], results: dict[str, float]
) -> dict[str, Any]:
    """``ended``: ledger lines; ``sent`` and ``results``: timestamps of each bundle's event and of
    its document's result."""
    differences, observed_s = [], []
    causes: dict[str, float] = {}
    internal = 0.0
    for line in ended:
        observed = results[line["bundle_id"]] - sent[line["bundle_id"]]
        total = sum(line["causes"].values())
        internal = max(internal, abs(total - line["seconds"]))
        total -= line["causes"].get("clean_up", 0.0)
        differences.append(total - observed)
        observed_s.append(observed)
        for cause, seconds in line["causes"].items():
            causes[cause] = causes.get(cause, 0.0) + seconds
    whole = sum(observed_s)
    return {
        "documents": len(ended),
        "unexplained_share": round(abs(sum(differences)) / whole, 5),
        "unexplained_share_absolute": round(sum(map(abs, differences)) / whole, 5),
        "unexplained_share_p95": round(
            percentile([abs(d) / o for d, o in zip(differences, observed_s, strict=True)], 0.95), 5
        ),
        "causes_against_total_max_s": round(internal, 6),
        "end_to_end_s": {
            name: round(percentile(observed_s, share), 3)
            for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
        },
        "causes_share": {name: round(seconds / whole, 4) for name, seconds in causes.items()},
    }


def _draw(
    ended: Sequence[dict[str, Any]],
    sent: dict[str, float],
    results: dict[str, float],
    folder: Path,
) -> None:
    from tests.bench.plots import cdf

    bundles = [line["bundle_id"] for line in ended]
    seconds = {"end to end, seen from outside": [results[b] - sent[b] for b in bundles]}
    for cause in sorted({cause for line in ended for cause in line["causes"]}):
        of_cause = [line["causes"].get(cause, 0.0) for line in ended]
        if percentile(of_cause, 0.95) >= SHORTEST_DRAWN_S:
            seconds[cause.replace("_", " ")] = [max(s, SHORTEST_DRAWN_S) for s in of_cause]
    cdf(seconds, folder, "latency", "seconds", log=True)


def run(given: argparse.Namespace) -> dict[str, Any]:
    arguments = (
        *("--slots", "50", "--distribution", "lognormal", "--run-time", "1.0"),
        *("--seed", str(given.seed)),
    )
    settings = {"worker": {"jobs_per_provider": 100}}
    appended = {"results": {"message.timestamp.type": "LogAppendTime"}}
    with (
        servers() as running,
        scenario(running, *arguments, settings=settings, topic_config=appended) as made,
    ):
        made.start_worker()
        counter = ResultCounter(made.pipeline)
        made.send(given.documents, prefix="p")
        counter.wait(given.documents, 60 + given.documents)
        made.pipeline.wait_all_committed()
        results = dict(counter.seen)
        counter.close()
        assert made.worker is not None
        made.worker.terminate()  # the ledger is flushed
        ended = [line for line in made.pipeline.ledger() if line["event"] == "ended"]
        sent = announced_at(made)
    found = compared(ended, sent, results)
    if given.plots:
        _draw(ended, sent, results, given.plots)
    say(f"unexplained: {found['unexplained_share_absolute']:.2%}")
    return found


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--documents", type=int, default=1500)
