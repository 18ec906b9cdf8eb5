"""`python -m deploy.demo`: what `make demo` runs."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import urllib3

from consumers.client import Announcement, BundleClient
from consumers.settings import Settings, load
from consumers.stores import open_store
from deploy.demo import documents
from deploy.demo.count import Count, count_all, read_topic
from deploy.demo.question import as_shown, ask
from deploy.demo.stages import p50_and_p95, stage_seconds
from deploy.local.ending import Ended, run_until_signal
from deploy.local.process import ServerFailed
from deploy.local.stack import LocalStack, StackOptions

TIMEOUT_S = 120.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m deploy.demo", description=__doc__)
    parser.add_argument("--kafka", choices=("auto", "apache", "embedded"), default="auto")
    parser.add_argument("--workers", type=int, default=1)
    arguments = parser.parse_args()
    options = StackOptions(kafka=arguments.kafka, workers=arguments.workers)
    stack = LocalStack(options, say)

    def started_and_shown() -> int:
        stack.start()
        with tempfile.TemporaryDirectory() as folder:
            return show(stack, Path(folder))

    try:
        return run_until_signal(started_and_shown, stack.close)
    except Ended as ended:
        say(str(ended))
        return ended.exit_code
    except ServerFailed as error:
        say(f"the local stack failed: {error}")
        return 1


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def show(stack: LocalStack, folder: Path) -> int:
    settings = load(environment=stack.environment())
    print(f"Kafka: {stack.kafka.description}\nS3: {stack.s3.description}", flush=True)
    with BundleClient(settings) as client:
        first = _announce(client, folder)
        ended = _round(client, first, "announced")
        jobs_before = _jobs_at_service(stack)
        say("announcing the same bundles once more")
        again = _round(client, _announce(client, folder), "announced again")
        new_jobs = _jobs_at_service(stack) - jobs_before
    print(f"jobs made by the second announcement: {new_jobs}")
    found = count_all(settings)
    found.extra_jobs = max(0, new_jobs)
    _print_manifest(settings, found)
    _print_latencies(settings, stack, first)
    answered = ask(stack.environment())
    print(f"{as_shown(stack.environment())}\n{answered.line()}")
    print("where to look while a stack runs (`bundles local`):")
    for name, address in stack.addresses().items():
        print(f"  {name}: {address}")
    print(found.line(), flush=True)
    return 0 if found.clean and ended and again and answered.in_time else 1


def _announce(client: BundleClient, folder: Path) -> list[Announcement]:
    """Six bundles: scans, photo pages, a long document, a split, a merge, and a troubled one."""

    def files(*contents: bytes) -> list[Path]:
        paths = []
        for number, content in enumerate(contents):
            paths.append(folder / f"{number}.pdf")
            paths[-1].write_bytes(content)
        return paths

    scan = documents.scan
    return [
        client.announce(files(scan(1), scan(2), scan(3)), bundle_id="demo-scans"),
        client.announce(
            files(scan(4, images_per_page=12), scan(5, pages=2, images_per_page=6)),
            bundle_id="demo-photos",
        ),
        client.announce(files(scan(6, pages=60)), bundle_id="demo-long"),
        client.announce(
            files(scan(7, pages=9)),
            bundle_id="demo-split",
            ranges=[(1, 2), (3, 6), (7, 9)],
            parent="demo-intake",
        ),
        client.announce(files(scan(8, pages=2), scan(9)), bundle_id="demo-merged", merge=True),
        client.announce(
            files(documents.not_a_pdf(), _encrypted(folder), scan(10)), bundle_id="demo-troubled"
        ),
    ]


def _encrypted(folder: Path) -> bytes:
    """Encryption draws random numbers: made once, so that both rounds send the same bytes."""
    kept = folder / "encrypted"
    if not kept.exists():
        kept.write_bytes(documents.encrypted(11))
    return kept.read_bytes()


def _round(client: BundleClient, announced: Sequence[Announcement], what: str) -> bool:
    ended = True
    for announcement in announced:
        result = client.wait(announcement, timeout_s=TIMEOUT_S)
        if result is None:
            say(f"{announcement.bundle_id}: did not end within {TIMEOUT_S:g} s")
            ended = False
            continue
        say(
            f"{announcement.bundle_id}: {result['extracted']} extracted, "
            f"{result['dead_lettered']} dead-lettered (seen {time.time() - announcement.at:.1f} s "
            f"after being {what})"
        )
    return ended


def _jobs_at_service(stack: LocalStack) -> int:
    """Jobs that the extraction service has accepted, by its own count."""
    answer = urllib3.request("GET", f"{stack.extractor_url}/metrics", timeout=10)
    total = 0.0
    for line in answer.data.decode().splitlines():
        if line.startswith('extractor_submits_total{outcome="accepted"}'):
            total += float(line.rsplit(" ", 1)[1])
    return int(total)


def _print_manifest(settings: Settings, found: Count) -> None:
    keys = found.manifests.get(("demo-merged", "merged"))
    if not keys:
        return
    store = open_store(settings.store)
    try:
        body = store.get(settings.store.output_bucket, keys[0], max_bytes=2**24).body
    finally:
        store.close()
    print(f"one manifest, s3://{settings.store.output_bucket}/{keys[0]}:")
    print(json.dumps(json.loads(body), indent=2))


def _print_latencies(
    settings: Settings, stack: LocalStack, announced: Sequence[Announcement]
) -> None:
    """Of the first announcement: the second one finds everything done."""
    ledger = read_topic({"bootstrap.servers": stack.kafka.bootstrap}, settings.topics.ledger)
    lines = (json.loads(record.value() or b"{}") for record in ledger)
    stages = stage_seconds(lines, {(one.partition, one.offset) for one in announced})
    print("seconds per extracted document, first announcement:   p50      p95")
    for stage, seconds in stages.items():
        p50, p95 = p50_and_p95(seconds)
        print(f"  {stage:<48} {p50:8.3f} {p95:8.3f}")


if __name__ == "__main__":
    sys.exit(main())
