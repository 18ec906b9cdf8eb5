"""Counts what is in Kafka and S3, asking none of those who put it there."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka import Message as Record

from consumers.settings import Settings
from consumers.stores import open_store
from schemas import topics as names
from schemas.cloudevents import EventRejected, parse_event
from schemas.results import DOCUMENT_RESULT_TYPE
from schemas.topics import TopicSettings
from sinks.objectstore import ObjectStore

Document = tuple[str, str]
"""(bundle id, document id)"""

TIMEOUT_S = 30.0


@dataclass(slots=True)
class Count:
    """What stands there. Documents are those that readable events announced."""

    events: int = 0
    documents: set[Document] = field(default_factory=set)
    manifests: dict[Document, list[str]] = field(default_factory=lambda: defaultdict(list))
    results: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Result id -> hashes of the bytes sent under it."""
    resulted: set[Document] = field(default_factory=set)
    dead_lettered: dict[Document, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Document -> reasons."""
    submits: dict[str, int] = field(default_factory=dict)
    """Extraction id -> submit calls that its job record knows of."""
    jobs: dict[str, int] = field(default_factory=dict)
    """Extraction id -> jobs (shards) it needs."""
    extra_jobs: int = 0
    """Jobs that should not have been, by the service's own count."""

    @property
    def lost(self) -> int:
        """Documents with neither a manifest and its result, nor a dead letter."""
        done = {d for d in self.resulted if self.manifests.get(d)}
        return len(self.documents - done - set(self.dead_lettered))

    @property
    def duplicated(self) -> int:
        """Manifests beyond one per document, and results of one id that differ."""
        manifests = sum(len(keys) - 1 for keys in self.manifests.values())
        return manifests + sum(len(bodies) - 1 for bodies in self.results.values())

    @property
    def resubmitted(self) -> int:
        return sum(self.submits.values()) - sum(self.jobs.values()) + self.extra_jobs

    @property
    def clean(self) -> bool:
        return not (self.lost or self.duplicated or self.resubmitted)

    def line(self) -> str:
        return (
            f"demo: events={self.events} documents={len(self.documents)} "
            f"manifests={sum(map(len, self.manifests.values()))} results={len(self.results)} "
            f"dead_letters={len(self.dead_lettered)} lost={self.lost} "
            f"duplicated={self.duplicated} resubmitted={self.resubmitted}"
        )


def count_all(settings: Settings) -> Count:
    """What stands in the topics and in the bucket of these settings."""
    store = open_store(settings.store)
    client = {"bootstrap.servers": settings.kafka.bootstrap_servers}
    try:
        return count(client, settings.topics, store, settings.store.output_bucket)
    finally:
        store.close()


def count(
    client: Mapping[str, str], topics: TopicSettings, store: ObjectStore, bucket: str
) -> Count:
    found = Count()
    for record in read_topic(client, topics.events):
        found.events += 1
        try:
            event = parse_event(record.value(), []).event
        except EventRejected:
            continue
        found.documents |= {(event.bundle_id, d.document_id) for d in event.documents}
    for record in read_topic(client, topics.results):
        headers = _headers(record)
        if headers.get(names.CE_TYPE) == DOCUMENT_RESULT_TYPE:
            result = json.loads(record.value() or b"{}")
            body = hashlib.sha256(record.value() or b"").hexdigest()
            found.results[headers[names.CE_ID]].add(body)
            found.resulted.add((result["bundle_id"], result["document_id"]))
    for record in read_topic(client, topics.dead_letters):
        headers = _headers(record)
        document = (
            headers.get(names.DLQ_BUNDLE_ID, headers[names.DLQ_ID]),
            headers.get(names.DLQ_DOCUMENT_ID, ""),
        )
        found.dead_lettered[document].add(headers[names.DLQ_REASON])
    for listed in store.list(bucket, ""):
        if listed.key.startswith("_jobs/"):
            record_ = json.loads(store.get(bucket, listed.key, max_bytes=2**23).body)
            found.submits[record_["extraction_id"]] = sum(s["submits"] for s in record_["shards"])
            found.jobs[record_["extraction_id"]] = len(record_["shards"])
        elif listed.key.endswith("/manifest.json"):
            bundle_id, document_id = listed.key.split("/")[:2]
            found.manifests[(bundle_id, document_id)].append(listed.key)
    return found


def read_topic(client: Mapping[str, str], topic: str) -> Iterator[Record]:
    """Every record of a topic as it stands now."""
    consumer = Consumer(
        {
            **client,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        partitions = consumer.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
        ends = {}
        for partition in partitions:
            low, high = consumer.get_watermark_offsets(
                TopicPartition(topic, partition), timeout=TIMEOUT_S
            )
            if high > low:
                ends[partition] = high
        consumer.assign([TopicPartition(topic, p, 0) for p in ends])
        while ends:
            record = consumer.poll(TIMEOUT_S)
            if record is None:
                raise TimeoutError(f"topic {topic} could not be read to its end")
            if record.error():
                # The end of a partition: what was announced may lie behind a transaction marker.
                ends.pop(record.partition() or 0, None)
                continue
            yield record
            if (record.offset() or 0) + 1 >= ends.get(record.partition() or 0, 0):
                ends.pop(record.partition() or 0, None)
    finally:
        consumer.close()


def _headers(record: Record) -> dict[str, str]:
    found: dict[str, Any] = dict(record.headers() or [])
    return {name: (value or b"").decode() for name, value in found.items()}
