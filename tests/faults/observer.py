"""What stands in Kafka, in S3 and in the service's own log after a run. No worker is asked."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaException

from deploy.demo.count import read_topic
from schemas import topics as names
from schemas.results import BUNDLE_RESULT_TYPE, DOCUMENT_RESULT_TYPE
from tests.faults.housekeeping import MANIFEST, plant_orphans, sweep, verify_faults
from tests.faults.stage import Background, Stage


@dataclass(slots=True)
class Verdict:
    """Every number should be 0, but for the first two and ``orphans_swept``."""

    documents: int
    jobs: int
    """Jobs that the service accepted, over all its lives."""
    lost: int = 0
    """Documents without a manifest that is named by a result, and without a dead letter."""
    dead_letters: int = 0
    manifests_conflicting: int = 0
    """Manifests beyond one per document, and manifests that changed after they were seen."""
    jobs_resubmitted: int = 0
    """Jobs beyond one per document."""
    results_missing: int = 0
    """Document and bundle results that no record of the results topic holds."""
    results_differing: int = 0
    """Results of one id with different bytes."""
    images_missing: int = 0
    """Images that a manifest names and the store does not hold."""
    orphans_swept: int = 0
    """Images that `bundles sweep` took: those planted before it, and what crashes left."""
    orphans_after_sweep: int = 0
    """Images that no manifest names, after `bundles sweep`."""
    verify_faults: int = 0
    """What `bundles verify --all` finds wrong after the sweep: images missing, with other bytes, or
    beside a manifest that does not name them."""
    redelivered: int = 0
    """Document results that were sent more than once: allowed, and the price of at-least-once."""


@dataclass
class Watch:
    """Looks at the group's offsets and the manifests while a run goes on."""

    stage: Stage
    went_back: int = 0
    """Times that a committed offset was lower than before."""
    manifests_changed: int = 0
    _offsets: dict[int, int] = field(default_factory=dict)
    _manifests: dict[str, str] = field(default_factory=dict)

    def running(self) -> Background:
        return Background(self.look_at_offsets, 0.5, (KafkaException, TimeoutError))

    def look_at_offsets(self) -> None:
        for partition, offset in self.stage.committed().items():
            if offset < self._offsets.get(partition, offset):
                self.went_back += 1
            self._offsets[partition] = offset

    def look_at_manifests(self) -> None:
        for listed in self.stage.store.list(self.stage.output_bucket, ""):
            if listed.key.endswith(MANIFEST):
                if self._manifests.setdefault(listed.key, listed.etag) != listed.etag:
                    self.manifests_changed += 1
                self._manifests[listed.key] = listed.etag


def judge(stage: Stage, watch: Watch | None = None) -> Verdict:
    """Count, when every offset is committed. Plants orphans and sweeps first: that must take
    orphans only, and whatever else it took would be missing in the count."""
    plant_orphans(stage)
    swept = sweep(stage)
    announced: dict[str, set[str]] = {}
    for record in read_topic(stage.kafka_client, stage.topics.events):
        event = json.loads(record.value() or b"{}")
        announced[event["bundle_id"]] = {d["document_id"] for d in event["documents"]}
    documents = {(b, d) for b, listed in announced.items() for d in listed}

    bodies: dict[str, set[str]] = defaultdict(set)
    times: Counter[str] = Counter()
    named: dict[tuple[str, str], str] = {}
    bundles: set[str] = set()
    for result in stage.results():
        bodies[result.identifier].add(hashlib.sha256(result.body).hexdigest())
        times[result.identifier] += 1
        data = result.data
        if result.headers[names.CE_TYPE] == DOCUMENT_RESULT_TYPE:
            named[(data["bundle_id"], data["document_id"])] = data["manifest"]["key"]
        elif result.headers[names.CE_TYPE] == BUNDLE_RESULT_TYPE:
            bundles.add(data["bundle_id"])

    stored = {item.key for item in stage.store.list(stage.output_bucket, "")}
    manifests = {key: stage.manifest(key) for key in stored if key.endswith(MANIFEST)}
    per_document = Counter((m["bundle_id"], m["document_id"]) for m in manifests.values())
    images = {image["key"] for m in manifests.values() for image in m["images"]}
    refused = {
        (letter.headers.get(names.DLQ_BUNDLE_ID), letter.headers.get(names.DLQ_DOCUMENT_ID))
        for letter in stage.dead_letters()
    }
    jobs = [line for line in stage.provider_jobs() if line["event"] == "accepted"]
    first_keys = {_first(line) for line in jobs}
    done = {document for document, key in named.items() if key in manifests}
    return Verdict(
        documents=len(documents),
        jobs=len(jobs),
        lost=len(documents - done - refused),
        dead_letters=len(refused),
        manifests_conflicting=sum(count - 1 for count in per_document.values())
        + (watch.manifests_changed if watch else 0),
        jobs_resubmitted=len(jobs) - len(first_keys),
        results_missing=len(set(per_document) - set(named)) + len(set(announced) - bundles),
        results_differing=sum(len(different) - 1 for different in bodies.values()),
        images_missing=len(images - stored),
        orphans_swept=swept,
        orphans_after_sweep=sum(
            1 for key in stored - images if not key.startswith("_") and key not in manifests
        ),
        verify_faults=verify_faults(stage),
        redelivered=sum(times[m["extraction_id"]] > 1 for m in manifests.values()),
    )


def _first(line: dict[str, Any]) -> str:
    """The key of the first job of a document, whichever of its jobs this was."""
    key: str = line["key"]
    return key.partition(".")[0]
