"""What cutting a large document into jobs brings, and what it costs in memory.

    python -m tests.bench.shards [--pages 900] [--page-kb 60] [--pages-per-job 50] [--json]

One bundle of one document, twice against a service whose run time is proportional to the pages:
as one job, and cut into shards that run at the same time. The last line is JSON: `ratio` is the
time with shards as a share of the time of one job, `rss_mb` the most resident memory that the
worker's process had all the way, `sandbox_rss_mb` that of its largest sandbox process. Ends with 1
when a goal (`tests.bench.goals`) was missed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pikepdf
import psutil

from tests import pdfs
from tests.bench.harness import last_line, rss_mib, say, scenario, servers
from tests.pipeline import Pipeline

SAMPLE_S = 0.05
POLLING = {"first_delay_s": 0.5, "multiplier": 1.5, "ceiling_s": 2.0, "deadline_s": 900.0}


def scanned_pages(file: Path, pages: int, page_bytes: int, seed: int = 1) -> None:
    """A PDF of so many pages, each of one image of so many bytes that are nobody else's. Nothing
    here decodes them, so they need not be pixels."""
    rng = random.Random(seed)
    pdf = pikepdf.new()
    for _ in range(pages):
        scan = pdf.make_stream(
            rng.randbytes(page_bytes),
            Type=pikepdf.Name.XObject,
            Subtype=pikepdf.Name.Image,
            Width=1654,
            Height=2339,
            ColorSpace=pikepdf.Name.DeviceGray,
            BitsPerComponent=8,
            Filter=pikepdf.Name.DCTDecode,
        )
        pdfs.add_page(pdf, b"q 595 0 0 842 0 0 cm /Scan Do Q", {"/Scan": scan})
    pdf.save(file, deterministic_id=True)


@dataclass
class Peak:
    """The most resident memory seen, MiB."""

    worker: float = 0.0
    sandbox: float = 0.0


@contextmanager
def watched(pid: int) -> Iterator[Peak]:
    """Samples the memory of a worker and of its sandbox processes while the block runs."""
    peak, ended = Peak(), threading.Event()
    process = psutil.Process(pid)

    def look() -> None:
        while not ended.wait(SAMPLE_S):
            peak.worker = max(peak.worker, rss_mib(pid))
            for child in process.children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    peak.sandbox = max(peak.sandbox, rss_mib(child.pid))

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield peak
    finally:
        ended.set()
        watcher.join()


def timed(
    pipeline: Pipeline, source: dict[str, Any], policy: str
) -> tuple[float, dict[str, Any], dict[str, float]]:
    """Seconds from the announcement to the result, the manifest, and where the time went."""
    started = time.monotonic()
    announced = pipeline.send(pipeline.event(f"bundle-{policy}", [source], policy=policy))
    outcome = pipeline.client.wait(announced, timeout_s=900)
    seconds = time.monotonic() - started
    assert outcome is not None, pipeline.last_lines()
    (document,) = outcome["documents"]
    assert document["status"] == "extracted", document
    (causes,) = (
        line["causes"]
        for line in pipeline.ledger()
        if line["event"] == "ended" and line["bundle_id"] == announced.bundle_id
    )
    return seconds, pipeline.manifest(document["manifest_key"]), causes


def run(
    pages: int, page_kb: int, pages_per_job: int, per_page_s: float, seed: int
) -> dict[str, Any]:
    policies = {
        "one-job": {"polling": POLLING},
        "shards": {"polling": POLLING, "sharding": {"max_pages_per_job": pages_per_job}},
    }
    with (
        servers() as running,
        tempfile.TemporaryDirectory() as folder,
        scenario(
            running,
            *("--distribution", "pages", "--per-page", str(per_page_s)),
            policies=policies,
            sources=0,
        ) as made,
    ):
        file = Path(folder) / "bundle.pdf"
        scanned_pages(file, pages, page_kb * 1000, seed)
        size_mb = file.stat().st_size / 1e6
        source = made.pipeline.client.upload(file)
        worker = made.start_worker()
        at_start = rss_mib(worker.pid)
        seconds, manifests, causes = {}, {}, {}
        with watched(worker.pid) as peak:
            for policy in policies:
                seconds[policy], manifests[policy], causes[policy] = timed(
                    made.pipeline, source, policy
                )
                say(f"{policy}: {seconds[policy]:.1f} s, {causes[policy]}")
        listed = {
            policy: [(i["name"], i["page"], i["source_page"]) for i in manifest["images"]]
            for policy, manifest in manifests.items()
        }
        assert listed["shards"] == listed["one-job"]
        assert len(listed["shards"]) == pages
    return {
        "ratio": round(seconds["shards"] / seconds["one-job"], 3),
        "rss_mb": round(peak.worker, 1),
        "rss_at_start_mb": round(at_start, 1),
        "sandbox_rss_mb": round(peak.sandbox, 1),
        "one_job_s": round(seconds["one-job"], 1),
        "shards_s": round(seconds["shards"], 1),
        "shards": len(manifests["shards"]["jobs"]),
        "pages": pages,
        "document_mb": round(size_mb, 1),
        "per_page_s": per_page_s,
        "causes": causes,
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.shards", description=__doc__)
    parser.add_argument("--pages", type=int, default=900)
    parser.add_argument("--page-kb", type=int, default=60)
    parser.add_argument("--pages-per-job", type=int, default=50)
    parser.add_argument("--per-page", type=float, default=0.15, help="seconds a page takes")
    parser.add_argument("--seed", type=int, default=1, help="of the pages' bytes")
    parser.add_argument("--json", action="store_true", help="print nothing but the last line")
    parser.add_argument("--check", action="store_true", help="as without: a missed goal ends in 1")
    given = parser.parse_args()
    result = run(given.pages, given.page_kb, given.pages_per_job, given.per_page, given.seed)
    line = last_line("shards", given.seed, result)
    print(json.dumps(line))
    return int(bool(line["missed"]))


if __name__ == "__main__":
    sys.exit(main())
