"""How long `bundles trace` takes in a full store: real S3, real Kafka, as a process of its own.

    python -m tests.bench.trace --documents 100000

Writes a manifest and eight ledger lines per document (with ``--whole`` image and job record, too;
of the documents that are asked for, always), then asks for images of bundles all over the store.
Last line: JSON with seconds of the whole process and of the answer. Ends with 1 when
a goal (`tests.bench.goals`) was missed: an answer is incomplete, or takes too long.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from consumers.extraction.timestamps import rfc3339
from tests.bench.harness import last_line
from tests.integration.operations.commands import bundles
from tests.pipeline import Pipeline
from tests.servers import create_topic, running_kafka, running_s3
from tests.unit.consumers.operations.stored import ADocument, Stored

PER_BUNDLE = 10
SPREAD_S = 2 * 3600
LINES = (
    ("accepted", "accept"),
    ("fetched", "fetch"),
    ("validated", "validate"),
    ("submitted", "submit"),
    ("finished", "poll"),
    ("manifest_written", "persist"),
    ("result_published", "publish"),
    ("ended", "publish"),
)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=10)
    parser.add_argument("--partitions", type=int, default=12)
    parser.add_argument("--whole", action="store_true", help="every document with all its objects")
    parser.add_argument("--check", action="store_true", help="as without: a missed goal ends in 1")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, running_kafka() as kafka, running_s3() as s3:
        pipeline = Pipeline(
            bootstrap=kafka.bootstrap,
            s3_endpoint=s3.endpoint,
            s3_access_key=s3.access_key,
            s3_secret_key=s3.secret_key,
            folder=Path(folder),
        )
        ledger = f"{pipeline.topics.ledger}-wide"
        pipeline.topics = pipeline.topics.model_copy(update={"ledger": ledger})
        create_topic(kafka.bootstrap, ledger, given.partitions)
        with _Existing(pipeline):
            asked = {_asked(n, given.documents) for n in range(given.questions)}
            _fill(pipeline, given.documents, set(range(given.documents)) if given.whole else asked)
            answer = _ask(pipeline, given.documents, given.questions)
    line = last_line("trace", None, {**answer, "whole": given.whole})
    print(json.dumps(line))
    return int(bool(line["missed"]))


class _Existing:
    """The pipeline without topics of its own: only store and ledger matter here."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline

    def __enter__(self) -> None:
        from consumers.stores import open_store

        self.pipeline.store = open_store(self.pipeline.settings().store, threads=16)
        self.pipeline.store.ensure_bucket(self.pipeline.output_bucket)

    def __exit__(self, *_: object) -> None:
        self.pipeline.store.close()


def _bundle(number: int) -> str:
    return f"bundle-{number // PER_BUNDLE:06d}"


def _document(pipeline: Pipeline, number: int, at: float) -> ADocument:
    into = Stored(at, bucket=pipeline.output_bucket)
    into.store = pipeline.store  # type: ignore[assignment]
    name = f"document-{number % PER_BUNDLE:03d}"
    return ADocument(into, bundle_id=_bundle(number), document_id=name, pages=1)


def _asked(question: int, count: int) -> int:
    return (question * 7919 * PER_BUNDLE + 3) % count


def _fill(pipeline: Pipeline, count: int, whole: set[int]) -> None:
    start = time.time() - SPREAD_S
    producer = Producer({"bootstrap.servers": pipeline.bootstrap, "linger.ms": 50})

    def write(number: int) -> None:
        document = _document(pipeline, number, start + SPREAD_S * number / count)
        if number in whole:
            document.write_all()
        else:
            document.stored.put(document.manifest_key, b"{}")

    with ThreadPoolExecutor(8) as threads:
        for number, _ in enumerate(threads.map(write, range(count)), start=1):
            if number % 10_000 == 0:
                print(f"{number} documents", file=sys.stderr, flush=True)
    for number in range(count):
        at = start + SPREAD_S * number / count
        document = _document(pipeline, number, at)
        for step, (event, stage) in enumerate(LINES):
            line = {
                "schema_version": 1,
                "at": rfc3339(at + step),
                "worker": "worker",
                "bundle_id": document.bundle_id,
                "document_id": document.document_id,
                "extraction_id": document.extraction_id,
                "stage": stage,
                "event": event,
                "topic": "events",
                "partition": 0,
                "offset": number,
            }
            producer.produce(
                pipeline.topics.ledger,
                json.dumps(line).encode(),
                document.extraction_id.encode(),
                timestamp=int((at + step) * 1000),
            )
        producer.poll(0)
    assert producer.flush(60) == 0


def _ask(pipeline: Pipeline, count: int, questions: int) -> dict[str, Any]:
    whole, answers, complete = [], [], 0
    for question in range(questions):
        number = _asked(question, count)
        asked = time.monotonic()
        ran = bundles(
            pipeline,
            *("trace", "page-001-image-001", "--bundle", _bundle(number)),
            *("--document", f"document-{number % PER_BUNDLE:03d}", "--json"),
        )
        whole.append(time.monotonic() - asked)
        assert ran.code == 0, ran.err
        (trace,) = ran.last["traces"]
        answers.append(float(ran.last["answered_in_s"]))
        complete += trace["ledger_incomplete"] is None and len(trace["attempts"]) == len(LINES)
    return {
        "documents": count,
        "questions": questions,
        "with_whole_ledger": complete,
        "process_s_median": round(statistics.median(whole), 3),
        "process_s_max": round(max(whole), 3),
        "answer_s_median": round(statistics.median(answers), 3),
        "answer_s_max": round(max(answers), 3),
    }


if __name__ == "__main__":
    sys.exit(main())
