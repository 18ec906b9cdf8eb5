"""Fuzzed events and mutated PDFs through a real worker: each ends as a result or a dead letter.

    python -m tests.corpus.pipeline [--events 10000] [--pdfs 2000] [--seed 1] [--json]

Every event goes through the parser in this process and through a worker (where
``--through-worker`` is given, only so many of them), as do all PDFs; Kafka and S3 are real, the
extraction service is the fake. The last line is JSON: `crashes` (the worker ended, or the parser
raised anything but a rejection), `internal_errors` (dead letters that say so), `worker_deaths`
(those that say that a sandbox process crashed), `not_ended` (neither a result nor a dead letter
when the time was over) and `hangs` (calls of the parser over its limit, and `not_ended`). Ends with
1 unless all of them are 0.
"""

from __future__ import annotations

import argparse
import collections
import json
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from deploy.demo.count import read_topic
from schemas import topics as names
from schemas.cloudevents import EventRejected, parse_event
from schemas.reasons import Reason
from schemas.results import DOCUMENT_RESULT_TYPE
from tests import pdfs
from tests.corpus.events import FuzzedEvent, fuzzed
from tests.corpus.fuzz import mutate, seed_pdfs
from tests.pipeline import Pipeline, headers_of, wait_for
from tests.servers import running_kafka, running_s3

PARSER_LIMIT_S = 5.0
"""CPU time of one event: far above what the largest takes."""
SANDBOX = {"processes": 2, "cpu_time": "2s", "wall_time": "30s"}
POLLING = {"first_delay_s": 0.05, "floor_s": 0.05, "ceiling_s": 1.0}
GOOD_EVERY = 10
"""So often a document without fault goes with them: where nothing ever succeeded, a worker would
rightly suspect its service and hold dead letters back."""


@dataclass(frozen=True)
class Sent:
    """A record of the events topic, and the documents whose ends are expected of it."""

    documents: tuple[tuple[str, str], ...]
    """(bundle id, document id); empty where the parser rejects the event."""


@dataclass
class Run:
    """A pipeline with everything that was sent to it."""

    pipeline: Pipeline
    sent: dict[tuple[int, int], Sent] = field(default_factory=dict)
    """By partition and offset."""

    def send(self, events: Sequence[FuzzedEvent]) -> None:
        producer = Producer(
            {"bootstrap.servers": self.pipeline.bootstrap, "acks": "all", "linger.ms": 20}
        )

        def delivered(error: KafkaError | None, record: Message, sent: Sent) -> None:
            assert error is None, error
            partition, offset = record.partition(), record.offset()
            assert partition is not None
            assert offset is not None
            self.sent[partition, offset] = sent

        for number, event in enumerate(events):
            expected = Sent(_documents(event))
            producer.produce(
                self.pipeline.topics.events,
                event.value,
                str(number).encode(),
                headers=list(event.headers),
                on_delivery=lambda e, r, sent=expected: delivered(e, r, sent),  # type: ignore[misc]
            )
            producer.poll(0)
        assert producer.flush(120) == 0

    def outcome(self) -> dict[str, Any]:
        """What became of everything, read from Kafka."""
        results: set[tuple[str, str]] = set()
        for record in read_topic(self.pipeline.kafka_client, self.pipeline.topics.results):
            if headers_of(record).get(names.CE_TYPE) == DOCUMENT_RESULT_TYPE:
                result = json.loads(record.value() or b"{}")
                results.add((result["bundle_id"], result["document_id"]))
        letters: dict[tuple[int, int], set[str | None]] = collections.defaultdict(set)
        reasons: collections.Counter[str] = collections.Counter()
        for record in read_topic(self.pipeline.kafka_client, self.pipeline.topics.dead_letters):
            headers = headers_of(record)
            place = (int(headers[names.DLQ_PARTITION]), int(headers[names.DLQ_OFFSET]))
            letters[place].add(headers.get(names.DLQ_DOCUMENT_ID))
            reasons[headers[names.DLQ_REASON]] += 1
        not_ended = sum(
            not _has_ended(sent, letters[place], results) for place, sent in self.sent.items()
        )
        return {
            "sent": len(self.sent),
            "results": len(results),
            "dead_letters": sum(reasons.values()),
            "not_ended": not_ended,
            "internal_errors": reasons[Reason.INTERNAL_ERROR.value],
            "worker_deaths": reasons[Reason.PARSE_CRASHED.value],
            "reasons": dict(reasons.most_common()),
        }


def _documents(event: FuzzedEvent) -> tuple[tuple[str, str], ...]:
    try:
        received = parse_event(event.value, event.headers).event
    except EventRejected:
        return ()
    return tuple((received.bundle_id, document.document_id) for document in received.documents)


def _has_ended(sent: Sent, letters: set[str | None], results: set[tuple[str, str]]) -> bool:
    if None in letters:  # the event as a whole
        return True
    return bool(sent.documents) and all(
        (bundle, document) in results or document in letters for bundle, document in sent.documents
    )


# -- what is sent ------------------------------------------------------------------------------


def seed_event(pipeline: Pipeline, number: int) -> dict[str, Any]:
    """A valid event with most of what an event may say."""
    sources = [pipeline.upload(pdfs.one_page_scan(1)), pipeline.upload(pdfs.pages(3, 1))]
    bundle = f"fuzz-{number}"
    event = pipeline.event(bundle, sources[: 1 + number % 2], parent_bundle_id="parent")
    event |= {"schema_version": 1, "operation": "split", "policy": "default"}
    event["occurred_at"] = "2026-01-31T12:00:00Z"
    ranged = {"source": sources[1], "pages": {"first": 2, "last": 3}}
    event["documents"].append(
        {"document_id": "merged", "segments": [{"source": sources[0]}, ranged]}
    )
    return event


def fuzzed_events(seeds: Sequence[dict[str, Any]], count: int, seed: int) -> list[FuzzedEvent]:
    """The same seed gives the same events; each has a bundle of its own unless mutated away."""
    rng = random.Random(seed)
    made = []
    for number in range(count):
        event = dict(rng.choice(seeds)) | {"bundle_id": f"fuzz-{seed}-{number}"}
        made.append(fuzzed(event, rng))
    return made


def mutated_pdfs(pipeline: Pipeline, count: int, seed: int) -> list[FuzzedEvent]:
    """Events that announce mutated PDFs, whole or cut to a page, and good ones among them."""
    rng = random.Random(seed)
    originals = seed_pdfs()
    contents = [mutate(rng.choice(originals), rng) for _ in range(count)]
    with ThreadPoolExecutor(4) as pool:
        sources = list(pool.map(pipeline.upload, contents))
    good = pipeline.upload(pdfs.one_page_scan(2))
    made = []
    for number, source in enumerate(sources):
        event = pipeline.event(f"pdf-{seed}-{number}", [source])
        if number % 3 == 0:
            event["documents"][0]["segments"][0]["pages"] = {"first": 1, "last": 1}
        made.append(_plain(event))
        if number % GOOD_EVERY == 0:
            made.append(_plain(pipeline.event(f"good-{seed}-{number}", [good])))
    return made


def _plain(event: dict[str, Any]) -> FuzzedEvent:
    return FuzzedEvent(json.dumps(event).encode(), [])


# -- running -----------------------------------------------------------------------------------


def through_parser(events: Sequence[FuzzedEvent]) -> dict[str, Any]:
    """What the parser says to each."""
    verdicts: collections.Counter[str] = collections.Counter()
    slowest = 0.0
    for event in events:
        started = time.thread_time()
        try:
            parse_event(event.value, event.headers)
            verdicts["accepted"] += 1
        except EventRejected as rejected:
            verdicts[rejected.reason.value] += 1
        except Exception as error:  # what must not happen, and is reported
            verdicts[f"crash: {type(error).__name__}"] += 1
        slowest = max(slowest, time.thread_time() - started)
    return {
        "events": len(events),
        "crashes": sum(n for verdict, n in verdicts.items() if verdict.startswith("crash")),
        "slowest_s": round(slowest, 3),
        "verdicts": dict(verdicts.most_common()),
    }


def through_worker(
    pipeline: Pipeline, events: Sequence[FuzzedEvent], timeout_s: float
) -> dict[str, Any]:
    """A worker takes them all in; what became of them when it was done, or the time was over."""
    run = Run(pipeline)
    run.send(events)
    worker = pipeline.start_worker()
    started = time.monotonic()
    try:
        wait_for(
            lambda: not worker.running or pipeline.all_committed(), timeout_s, "every event to end"
        )
    except AssertionError:
        print(pipeline.last_lines(), file=sys.stderr)  # what has not ended is counted below
    crashed = not worker.running
    if not crashed:
        worker.stop(60)
    return run.outcome() | {
        "crashes": int(crashed or worker.returncode not in (0, None)),
        "seconds": round(time.monotonic() - started, 1),
    }


def settings() -> dict[str, Any]:
    """Fields of a `Pipeline` for these runs."""
    return {
        "policies": {"default": {"polling": POLLING}},
        "settings_tree": {"sandbox": SANDBOX, "log": {"level": "warning"}},
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.corpus.pipeline", description=__doc__)
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--through-worker", type=int, help="so many of the events only")
    parser.add_argument("--pdfs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds for each of the two")
    parser.add_argument("--json", action="store_true", help="print nothing but the last line")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, running_kafka() as kafka, running_s3() as s3:
        reports: dict[str, dict[str, Any]] = {}
        for kind in ("events", "pdfs"):
            own = Path(folder) / kind
            own.mkdir()
            with Pipeline(
                bootstrap=kafka.bootstrap,
                s3_endpoint=s3.endpoint,
                s3_access_key=s3.access_key,
                s3_secret_key=s3.secret_key,
                folder=own,
                **settings(),
            ) as pipeline:
                pipeline.start_fake_provider()
                if kind == "events":
                    seeds = [seed_event(pipeline, number) for number in range(2)]
                    events = fuzzed_events(seeds, given.events, given.seed)
                    reports["parser"] = through_parser(events)
                    events = events[: given.through_worker]
                else:
                    events = mutated_pdfs(pipeline, given.pdfs, given.seed)
                reports[kind] = through_worker(pipeline, events, given.timeout)
            if not given.json:
                print(json.dumps({kind: reports[kind]}))
    workers = (reports["events"], reports["pdfs"])
    not_ended = sum(report["not_ended"] for report in workers)
    total = {
        "events": given.events,
        "events_through_worker": reports["events"]["sent"],
        "pdfs": given.pdfs,
        "crashes": sum(report["crashes"] for report in reports.values()),
        "internal_errors": sum(report["internal_errors"] for report in workers),
        "worker_deaths": sum(report["worker_deaths"] for report in workers),
        "hangs": not_ended + int(reports["parser"]["slowest_s"] > PARSER_LIMIT_S),
        "not_ended": not_ended,
    }
    print(json.dumps(total | reports))
    bad = ("crashes", "internal_errors", "worker_deaths", "hangs", "not_ended")
    return int(any(total[name] for name in bad))


if __name__ == "__main__":
    sys.exit(main())
