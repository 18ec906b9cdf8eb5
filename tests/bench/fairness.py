"""What a huge bundle in front does to small documents behind it.

Small documents come at an even pace: alone; just after a bundle whose one document of 900 pages is
cut into jobs of 50, each page with an image; and just after a bundle of hundreds of small
documents, more than there are places for files and job slots. The service takes a time per page and
has a limited number of slots.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.bench.harness import ResultCounter, Scenario, percentile, say, scenario, servers
from tests.bench.parts import announced_at
from tests.bench.shards import scanned_pages

PAGES_PER_JOB = 50
POLLING = {"deadline_s": 900.0}
SETTINGS = {"sandbox": {"processes": 2}}
"""As many as a worker has by default."""


def paced(made: Scenario, documents: int, per_s: float, prefix: str) -> None:
    started = time.monotonic()
    for number in range(documents):
        made.send(1, prefix=f"{prefix}-{number}")
        time.sleep(max(0.0, started + (number + 1) / per_s - time.monotonic()))


def latencies(results: Mapping[str, float], sent: Mapping[str, float], prefix: str) -> list[float]:
    return [at - sent[bundle] for bundle, at in results.items() if bundle.startswith(prefix)]


def run(given: argparse.Namespace) -> dict[str, Any]:
    policies = {
        "default": {"polling": POLLING},
        "large": {"polling": POLLING, "sharding": {"max_pages_per_job": PAGES_PER_JOB}},
    }
    service = ("--distribution", "pages", "--per-page", str(given.per_page), "--slots", "100")
    with (
        servers() as running,
        tempfile.TemporaryDirectory() as folder,
        scenario(running, *service, policies=policies, settings=SETTINGS) as made,
    ):
        file = Path(folder) / "large.pdf"
        scanned_pages(file, given.pages, given.page_kb * 1000)
        large = made.pipeline.client.upload(file)
        made.start_worker()
        counter = ResultCounter(made.pipeline)
        made.send(given.documents, prefix="warm")
        counter.wait(given.documents, 300)
        paced(made, given.documents, given.per_second, "alone")
        counter.wait(2 * given.documents, 300)
        made.pipeline.send(made.pipeline.event("large", [large], policy="large"))
        paced(made, given.documents, given.per_second, "behind")
        counter.wait(3 * given.documents + 1, 900)
        made.send(given.many, prefix=MANY, per_bundle=given.many)
        paced(made, given.documents, given.per_second, "after")
        counter.wait(4 * given.documents + 1 + given.many, 900)
        results = dict(counter.seen)
        counter.close()
        sent = announced_at(made)
    alone = latencies(results, sent, "alone")
    behind = latencies(results, sent, "behind")
    after = latencies(results, sent, "after")
    assert len(behind) == len(after) == given.documents
    large_s = results["large"] - sent["large"]
    ratio = percentile(behind, 0.95) / percentile(alone, 0.95)
    many_s = results[f"{MANY}-0"] - sent[f"{MANY}-0"]
    ratio_many = percentile(after, 0.95) / percentile(alone, 0.95)
    say(f"large bundle: {large_s:.1f} s, small behind it: {ratio:.2f} x")
    say(f"bundle of {given.many}: {many_s:.1f} s, small behind it: {ratio_many:.2f} x")
    if given.plots:
        from tests.bench.plots import cdf

        series = {
            "alone": alone,
            f"behind {given.pages} pages": behind,
            f"behind {given.many} documents": after,
        }
        cdf(series, given.plots, "fairness", "seconds from event to result")
    return {
        "small_documents": given.documents,
        "per_second": given.per_second,
        "small_alone_s": {p: round(percentile(alone, s), 3) for p, s in QUANTILES},
        "small_behind_s": {p: round(percentile(behind, s), 3) for p, s in QUANTILES},
        "large_pages": given.pages,
        "large_s": round(large_s, 2),
        "large_ended_after_last_small_s": round(
            results["large"] - max(at for b, at in results.items() if b.startswith("behind")), 2
        ),
        "small_p95_ratio": round(ratio, 3),
        "many_documents": given.many,
        "many_s": round(many_s, 2),
        "small_behind_many_s": {p: round(percentile(after, s), 3) for p, s in QUANTILES},
        "small_p95_ratio_many": round(ratio_many, 3),
    }


MANY = "many"
QUANTILES = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--documents", type=int, default=300)
    parser.add_argument("--per-second", type=float, default=20.0)
    parser.add_argument("--pages", type=int, default=900)
    parser.add_argument("--many", type=int, default=500, help="documents of the bundle of many")
    parser.add_argument("--page-kb", type=int, default=20)
    parser.add_argument("--per-page", type=float, default=0.1, help="seconds")
