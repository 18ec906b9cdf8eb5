"""The mix that a site sees, through one worker: how long each class of document takes beside the
others.

tiny: one scanned page; long: 60 to 200 pages; near_limit: just below the policy's limit on bytes;
split: one source of 24 pages cut into six documents; merge: one document of two to six sources.
Splits and merges come in bursts, the others at random moments, the same for a seed. The service
takes a time per page with log-normal noise and has a limited number of slots; every page gives an
image. Latency is seen from outside: from an event's timestamp to that which the broker gave the
result. ``documents_per_s`` counts from the first event to the last result.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from deploy.demo.count import read_topic
from schemas.results import DOCUMENT_RESULT_TYPE
from tests import pdfs
from tests.bench.fairness import QUANTILES
from tests.bench.harness import ResultCounter, Scenario, percentile, say, scenario, servers
from tests.bench.parts import announced_at
from tests.bench.shards import scanned_pages
from tests.pipeline import Pipeline, headers_of

SHARES = {"tiny": 0.8, "long": 0.03, "near_limit": 0.03, "split": 0.07, "merge": 0.07}
"""Of the events."""
BURSTS = 3
LONG_PAGES = (60, 90, 130, 200)
SPLIT_PAGES, SPLIT_INTO = 24, 6
MERGED = (2, 6)
LIMIT_BYTES = 4 * 1024 * 1024
NEAR_LIMIT_PAGES = 32
NEAR_LIMIT_SHARE = 0.98
WARM_UP = 20
POLICIES = {
    "default": {"polling": {"deadline_s": 900.0}, "limits": {"max_document_bytes": LIMIT_BYTES}}
}

Source = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Planned:
    """One event, ``at_s`` seconds after the first may come."""

    at_s: float
    kind: str
    bundle_id: str


def plan(events: int, seconds: float, seed: int) -> list[Planned]:
    """In the order of their moments."""
    rng = random.Random(seed)
    planned = []
    for kind, share in SHARES.items():
        bursts = [rng.uniform(0, seconds) for _ in range(BURSTS)]
        for number in range(max(1, round(share * events))):
            in_bursts = kind in ("split", "merge")
            at = bursts[number % BURSTS] if in_bursts else rng.uniform(0, seconds)
            planned.append(Planned(at, kind, f"{kind}-{number}"))
    return sorted(planned, key=lambda one: (one.at_s, one.bundle_id))


def event_of(one: Planned, sources: Mapping[str, Sequence[Source]], seed: int) -> dict[str, Any]:
    """``sources`` by class; a merge is of tiny ones."""
    rng = random.Random(f"{seed} {one.bundle_id}")
    if one.kind == "split":
        source = rng.choice(sources["split"])
        cuts = [0, *sorted(rng.sample(range(1, SPLIT_PAGES), SPLIT_INTO - 1)), SPLIT_PAGES]
        parts = [
            [{"source": source, "pages": {"first": first + 1, "last": last}}]
            for first, last in pairwise(cuts)
        ]
    elif one.kind == "merge":
        parts = [[{"source": s} for s in rng.sample(sources["tiny"], rng.randint(*MERGED))]]
    else:
        parts = [[{"source": rng.choice(sources[one.kind])}]]
    documents = [{"document_id": f"d{n}", "segments": part} for n, part in enumerate(parts)]
    operation = {"split": "split", "merge": "merged"}.get(one.kind, "received")
    return {"bundle_id": one.bundle_id, "operation": operation, "documents": documents}


def kind_of(bundle_id: str) -> str:
    return bundle_id.rpartition("-")[0]


def summary(
    latencies: Iterable[tuple[str, float]], ended: Iterable[Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """By class, seconds. ``latencies``: (bundle id, seconds) of each result; ``ended``: ledger
    lines, of other bundles too."""
    by_kind: dict[str, list[float]] = {kind: [] for kind in SHARES}
    for bundle, seconds in latencies:
        by_kind[kind_of(bundle)].append(seconds)
    causes: dict[str, Counter[str]] = {kind: Counter() for kind in SHARES}
    for line in ended:
        if (kind := kind_of(line["bundle_id"])) in causes:
            causes[kind].update(line["causes"])
    return {
        kind: {
            "documents": len(seconds),
            **{name: round(percentile(seconds, share), 3) for name, share in QUANTILES},
            "causes_share": {
                cause: round(spent / causes[kind].total(), 3)
                for cause, spent in causes[kind].most_common()
                if spent >= 0.001 * causes[kind].total()
            },
        }
        for kind, seconds in by_kind.items()
    }


def uploaded(pipeline: Pipeline, seed: int) -> dict[str, list[Source]]:
    near = pipeline.folder / "near.pdf"
    scanned_pages(near, NEAR_LIMIT_PAGES, int(NEAR_LIMIT_SHARE * LIMIT_BYTES) // NEAR_LIMIT_PAGES)
    assert near.stat().st_size <= LIMIT_BYTES
    return {
        "tiny": [pipeline.upload(pdfs.one_page_scan(100 * seed + n)) for n in range(20)],
        "long": [pipeline.upload(pdfs.pages(count)) for count in LONG_PAGES],
        "near_limit": [pipeline.upload(near.read_bytes())],
        "split": [pipeline.upload(pdfs.shared_resources(SPLIT_PAGES))],
    }


def announce(made: Scenario, events: Iterable[tuple[float, dict[str, Any]]]) -> None:
    """Each at its moment, seconds from now."""
    started = time.monotonic()
    for at_s, event in events:
        time.sleep(max(0.0, started + at_s - time.monotonic()))
        value, key = json.dumps(event).encode(), event["bundle_id"].encode()
        made.producer.produce(made.pipeline.topics.events, value, key)
        made.producer.poll(0)
    assert made.producer.flush(120) == 0


def results_of(pipeline: Pipeline) -> list[tuple[str, float]]:
    """(bundle id, Unix seconds) of each document's result."""
    return [
        (json.loads(record.value() or b"{}")["bundle_id"], record.timestamp()[1] / 1000)
        for record in read_topic(pipeline.kafka_client, pipeline.topics.results)
        if headers_of(record)["ce_type"] == DOCUMENT_RESULT_TYPE
    ]


def run(given: argparse.Namespace) -> dict[str, Any]:
    service = (
        *("--distribution", "mix", "--per-page", str(given.per_page), "--seed", str(given.seed)),
        *("--sigma", str(given.sigma), "--slots", str(given.slots)),
    )
    appended = {"results": {"message.timestamp.type": "LogAppendTime"}}
    with (
        servers() as running,
        scenario(running, *service, policies=POLICIES, topic_config=appended) as made,
    ):
        pipeline = made.pipeline
        sources = uploaded(pipeline, given.seed)
        planned = plan(given.events, given.seconds, given.seed)
        events = [(one.at_s, event_of(one, sources, given.seed)) for one in planned]
        documents = sum(len(event["documents"]) for _, event in events)
        worker = made.start_worker()
        counter = ResultCounter(pipeline)
        made.send(WARM_UP, prefix="warm")
        counter.wait(WARM_UP, 120)
        before = made.cpu()
        say(f"{len(events)} events of {documents} documents in {given.seconds:g} s")
        announce(made, events)
        counter.count_for(600, up_to=WARM_UP + documents)
        counter.close()
        cpu = {name: round(used - before[name], 2) for name, used in made.cpu().items()}
        worker.terminate()  # the ledger is flushed
        sent = announced_at(made)
        results = [(b, at) for b, at in results_of(pipeline) if kind_of(b) in SHARES]
        ended = [line for line in pipeline.ledger() if line["event"] == "ended"]
        refused = len(list(read_topic(pipeline.kafka_client, pipeline.topics.dead_letters)))
    latencies = [(bundle, at - sent[bundle]) for bundle, at in results]
    classes = summary(latencies, ended)
    for kind, found in classes.items():
        say(f"{kind}: {found}")
    if given.plots:
        from tests.bench.plots import cdf

        series = {kind: [s for b, s in latencies if kind_of(b) == kind] for kind in SHARES}
        cdf(series, given.plots, "mixed", "seconds from event to result", log=True)
    first = min(at for bundle, at in sent.items() if kind_of(bundle) in SHARES)
    took = max(at for _, at in results) - first
    asked = {name: vars(given)[name] for name in ("seconds", "per_page", "sigma", "slots")}
    return {
        **asked,
        "cpu_s": cpu,
        "classes": classes,
        "documents": documents,
        "completed": len(results),
        "dead_letters": refused,
        "documents_per_s": round(len(results) / took, 1),
    }


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--events", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=25.0, help="in which they are announced")
    parser.add_argument("--per-page", type=float, default=0.03, help="seconds")
    parser.add_argument("--sigma", type=float, default=0.7, help="shape of the noise")
    parser.add_argument("--slots", type=int, default=50, help="jobs that the service runs at once")
