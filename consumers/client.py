"""The other side of the topics: uploads, announces, and waits for results. For people, the demo and
tests; also the shortest example of how a system upstream or downstream would do it."""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import OFFSET_END, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka import Message as Record

from consumers.kafka_client import kafka_client
from consumers.settings import Settings
from consumers.stores import open_store
from schemas import topics as names
from schemas.events import EVENT_TYPE
from schemas.results import BUNDLE_RESULT_TYPE
from sinks.objectstore import StoreError

Progress = Callable[[str, str, str], None]
"""(document id, stage, event)"""

TIMEOUT_S = 30.0


class UploadFailed(Exception):
    """The bundle could not be announced; nothing was sent, or it is not known whether it was."""


@dataclass(frozen=True, slots=True)
class Announcement:
    """An event that stands on Kafka. ``documents`` are their ids."""

    bundle_id: str
    documents: tuple[str, ...]
    topic: str
    partition: int
    offset: int
    at: float
    """Seconds since 1970, just before it was sent."""
    answers_from: tuple[tuple[str, int, int], ...] = field(default=(), repr=False)
    """(topic, partition, offset): where the topics of answers ended just before it was sent. By
    offset, because the clocks of who sends and of who answers need not agree."""

    def as_dict(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "answers_from"}


class BundleClient:
    def __init__(self, settings: Settings) -> None:
        """:raises SettingsError: store or Kafka settings that cannot work."""
        self._settings = settings
        self._client = {
            "bootstrap.servers": settings.kafka.bootstrap_servers,
            **kafka_client(settings),
        }
        self._store = open_store(settings.store, threads=4)
        self._producer = Producer({**self._client, "acks": "all", "enable.idempotence": True})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._store.close()

    def announce(
        self,
        files: Sequence[Path],
        *,
        bundle_id: str | None = None,
        ranges: Sequence[tuple[int, int]] | None = None,
        merge: bool = False,
        parent: str | None = None,
        policy: str = "default",
    ) -> Announcement:
        """Upload ``files`` under content-addressed keys and announce them as one bundle.

        :raises UploadFailed: the store or Kafka did not take it.
        """
        sources = [self.upload(file) for file in files]
        checksums = [source["sha256"] for source in sources]
        if bundle_id is None:
            material = json.dumps([checksums, ranges, merge]).encode()
            bundle_id = f"bundle-{hashlib.sha256(material).hexdigest()[:16]}"
        documents: list[dict[str, Any]]
        if ranges:
            documents = [
                {
                    "document_id": f"pages-{first}-{last}",
                    "segments": [{"source": sources[0], "pages": {"first": first, "last": last}}],
                }
                for first, last in ranges
            ]
        elif merge:
            documents = [{"document_id": "merged", "segments": [{"source": s} for s in sources]}]
        else:
            documents = [
                {"document_id": f"document-{number:03d}", "segments": [{"source": source}]}
                for number, source in enumerate(sources, start=1)
            ]
        event = {
            "schema_version": 1,
            "bundle_id": bundle_id,
            "operation": "split" if ranges else "merged" if merge else "received",
            "policy": policy,
            "documents": documents,
        }
        if parent:
            event["parent_bundle_id"] = parent
        return self.send(event)

    def upload(self, file: Path) -> dict[str, Any]:
        """The file as a source: its key holds the checksum, never the file's name.

        :raises UploadFailed: the store did not take it.
        """
        with file.open("rb") as opened:
            checksum = hashlib.file_digest(opened, "sha256").hexdigest()
        key = f"uploads/{checksum[:2]}/{checksum}.pdf"
        try:
            self._store.put_if_absent(
                self._settings.store.input_bucket,
                key,
                file,
                content_type="application/pdf",
                sha256=checksum,
            )
        except StoreError as error:
            raise UploadFailed(f"cannot upload: {error}") from None
        return {"key": key, "sha256": checksum, "bytes": file.stat().st_size}

    def send(self, event: dict[str, Any]) -> Announcement:
        """Announce an event that is already a dict, as CloudEvents binary mode.

        :raises UploadFailed: Kafka did not acknowledge it.
        """
        delivered: list[Record] = []
        failed: list[str] = []

        def on_delivery(error: Any, record: Record) -> None:
            failed.append(error.name()) if error else delivered.append(record)

        at = time.time()
        try:
            answers_from = self._ends()
            self._producer.produce(
                self._settings.topics.events,
                json.dumps(event).encode(),
                str(event.get("bundle_id", "")).encode(),
                headers=[
                    (names.CE_SPECVERSION, b"1.0"),
                    (names.CE_TYPE, EVENT_TYPE.encode()),
                    (names.CE_SOURCE, b"/bundles-submit"),
                    (names.CE_ID, str(uuid.uuid4()).encode()),
                    (names.CONTENT_TYPE, names.JSON_CONTENT_TYPE.encode()),
                ],
                on_delivery=on_delivery,
            )
            self._producer.flush(TIMEOUT_S)
        except (KafkaException, BufferError) as error:
            raise UploadFailed(f"cannot announce: {type(error).__name__}") from None
        if not delivered:
            why = failed[0] if failed else "no acknowledgement"
            raise UploadFailed(f"Kafka did not take the event ({why}): is the topic there?")
        record = delivered[0]
        topic, partition, offset = record.topic(), record.partition(), record.offset()
        assert topic is not None and partition is not None and offset is not None  # noqa: PT018
        documents = tuple(d["document_id"] for d in event.get("documents", []))
        return Announcement(
            str(event.get("bundle_id", "")), documents, topic, partition, offset, at, answers_from
        )

    def wait(
        self,
        announced: Announcement,
        *,
        timeout_s: float,
        on_progress: Progress = lambda *_: None,
    ) -> dict[str, Any] | None:
        """The `BundleResult` that follows ``announced`` (as a dict); None after ``timeout_s``."""
        topics = self._settings.topics
        deadline = time.monotonic() + timeout_s
        consumer = self._reader()
        consumer.assign([TopicPartition(*start) for start in announced.answers_from])
        try:
            while (left := deadline - time.monotonic()) > 0:
                record = consumer.poll(min(left, 0.5))
                if record is None or record.error():
                    continue
                if record.topic() == topics.ledger:
                    self._progress(record, announced, on_progress)
                    continue
                headers = dict(record.headers() or [])
                if headers.get(names.CE_TYPE) == BUNDLE_RESULT_TYPE.encode():
                    result: dict[str, Any] = json.loads(record.value() or b"{}")
                    if result.get("bundle_id") == announced.bundle_id:
                        return result
        finally:
            consumer.close()
        return None

    def _progress(self, record: Record, announced: Announcement, on_progress: Progress) -> None:
        line = json.loads(record.value() or b"{}")
        ours = line.get("bundle_id") == announced.bundle_id
        if ours and line.get("offset") == announced.offset and line.get("document_id"):
            on_progress(line["document_id"], line["stage"], line["event"])

    def _ends(self) -> tuple[tuple[str, int, int], ...]:
        topics = self._settings.topics
        consumer = self._reader()
        try:
            known = consumer.list_topics(timeout=TIMEOUT_S).topics
            wanted = [
                TopicPartition(topic, partition, OFFSET_END)
                for topic in (topics.results, topics.ledger)
                if topic in known
                for partition in known[topic].partitions
            ]
            # The end is one of the moments that can be asked for: one request for all partitions.
            ends = consumer.offsets_for_times(wanted, timeout=TIMEOUT_S) if wanted else []
            for end in ends:
                if end.error is not None:
                    raise KafkaException(end.error)
            return tuple((end.topic, end.partition, end.offset) for end in ends)
        finally:
            consumer.close()

    def _reader(self) -> Consumer:
        """A consumer in no group."""
        return Consumer(
            {
                **self._client,
                "group.id": "unused",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 50,
            }
        )
