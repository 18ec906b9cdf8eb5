"""What a large bundle in front does to small documents behind it.

Small documents come at an even pace, once alone and once just after the large bundle. That is one
document of 900 pages, cut into jobs of 50, each page of which gives an image; then, with few job
slots, 500 documents of a page, which wait for these slots. The service takes a time per page and
has a limited number of slots of its own.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.harness import (
    ResultCounter,
    Scenario,
    Servers,
    percentile,
    say,
    scenario,
    servers,
)
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


@dataclass(frozen=True, slots=True)
class Compared:
    """Seconds from event to result: of small documents alone, of those behind the large bundle,
    and of the large bundle's last document."""

    alone: list[float]
    behind: list[float]
    large_s: float
    large_ended_after_last_small_s: float

    @property
    def ratio(self) -> float:
        return percentile(self.behind, 0.95) / percentile(self.alone, 0.95)


def compared(
    made: Scenario, given: argparse.Namespace, documents: int, send_large: Callable[[], object]
) -> Compared:
    """``send_large`` announces a bundle ``large`` of so many documents."""
    made.start_worker()
    counter = ResultCounter(made.pipeline)
    made.send(given.documents, prefix="warm")
    counter.wait(given.documents, 300)
    paced(made, given.documents, given.per_second, "alone")
    counter.wait(2 * given.documents, 300)
    send_large()
    paced(made, given.documents, given.per_second, "behind")
    counter.wait(3 * given.documents + documents, 900)
    results = dict(counter.seen)
    counter.close()
    sent = announced_at(made)
    behind = latencies(results, sent, "behind")
    assert len(behind) == given.documents
    large = next(name for name in sent if name.startswith("large"))
    last_small = max(at for bundle, at in results.items() if bundle.startswith("behind"))
    return Compared(
        latencies(results, sent, "alone"),
        behind,
        results[large] - sent[large],
        results[large] - last_small,
    )


def behind_pages(running: Servers, given: argparse.Namespace) -> Compared:
    policies = {
        "default": {"polling": POLLING},
        "large": {"polling": POLLING, "sharding": {"max_pages_per_job": PAGES_PER_JOB}},
    }
    with (
        tempfile.TemporaryDirectory() as folder,
        scenario(running, *_service(given), policies=policies, settings=SETTINGS) as made,
    ):
        file = Path(folder) / "large.pdf"
        scanned_pages(file, given.pages, given.page_kb * 1000)
        large = made.pipeline.client.upload(file)
        event = made.pipeline.event("large", [large], policy="large")
        return compared(made, given, 1, lambda: made.pipeline.send(event))


def behind_documents(running: Servers, given: argparse.Namespace) -> Compared:
    """So few slots that the large bundle's documents queue for them."""
    settings = {**SETTINGS, "worker": {"jobs_per_provider": given.few_slots}}
    policies = {"default": {"polling": POLLING}}
    with scenario(running, *_service(given), policies=policies, settings=settings) as made:
        many = given.many
        return compared(made, given, many, lambda: made.send(many, prefix="large", per_bundle=many))


def _service(given: argparse.Namespace) -> tuple[str, ...]:
    return ("--distribution", "pages", "--per-page", str(given.per_page), "--slots", "100")


def run(given: argparse.Namespace) -> dict[str, Any]:
    with servers() as running:
        pages = behind_pages(running, given)
        say(f"{given.pages} pages: {pages.large_s:.1f} s, small behind: {pages.ratio:.2f} x")
        many = behind_documents(running, given)
        say(f"{given.many} documents: {many.large_s:.1f} s, small behind: {many.ratio:.2f} x")
    if given.plots:
        from tests.bench.plots import cdf

        series = {"alone": pages.alone, f"behind {given.pages} pages": pages.behind}
        cdf(series, given.plots, "fairness", "seconds from event to result")
    return {
        "small_documents": given.documents,
        "per_second": given.per_second,
        **_figures(pages),
        "large_pages": given.pages,
        "many": {"large_documents": given.many, "job_slots": given.few_slots, **_figures(many)},
        "small_p95_ratio": round(pages.ratio, 3),
        "small_p95_ratio_many": round(many.ratio, 3),
    }


def _figures(found: Compared) -> dict[str, Any]:
    return {
        "small_alone_s": {p: round(percentile(found.alone, s), 3) for p, s in QUANTILES},
        "small_behind_s": {p: round(percentile(found.behind, s), 3) for p, s in QUANTILES},
        "large_s": round(found.large_s, 2),
        "large_ended_after_last_small_s": round(found.large_ended_after_last_small_s, 2),
    }


QUANTILES = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--documents", type=int, default=300)
    parser.add_argument("--per-second", type=float, default=20.0)
    parser.add_argument("--pages", type=int, default=900)
    parser.add_argument("--page-kb", type=int, default=20)
    parser.add_argument("--per-page", type=float, default=0.1, help="seconds")
    parser.add_argument("--many", type=int, default=500, help="documents of the other bundle")
    parser.add_argument("--few-slots", type=int, default=8, help="job slots in front of it")
