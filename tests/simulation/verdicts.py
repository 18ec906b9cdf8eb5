"""What must hold, whatever went wrong: checked at every commit and when all is quiet.

A dead letter must be explained by the document itself or by what was done to exactly it; an outage
or anything else that would have hit every document explains none.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from consumers.providers.protocol import JobState
from consumers.runtime.effects import Message
from schemas import topics as names
from schemas.reasons import RESUMABLE
from tests.simulation.documents import Trait, image_bytes
from tests.simulation.kafka import Output
from tests.simulation.scenario import OUTPUT_BUCKET, DocumentPlan, EventPlan

if TYPE_CHECKING:
    from tests.simulation.worker import SimWorker
    from tests.simulation.world import World

BY_TRAIT: dict[Trait, frozenset[str]] = {
    Trait.MISSING: frozenset({"source_missing"}),
    Trait.WRONG_CHECKSUM: frozenset({"checksum_mismatch"}),
    Trait.NOT_PDF: frozenset({"not_a_pdf"}),
    Trait.ENCRYPTED: frozenset({"encrypted"}),
    Trait.CRASHES_PARSER: frozenset({"parse_crashed"}),
    Trait.REFUSED: frozenset({"provider_refused"}),
    Trait.FAILS: frozenset({"provider_failed"}),
    Trait.FAILS_EVERY_JOB: frozenset({"provider_failed"}),
    Trait.FAILS_ONCE: frozenset({"provider_failed"}),
    Trait.ENDLESS: frozenset({"deadline"}),
    Trait.SLOW: frozenset({"deadline"}),
    Trait.SHORT: frozenset({"provider_incomplete"}),
    Trait.BAD_IMAGE: frozenset({"image_not_an_image"}),
}
BY_MALFORMED = {
    "not_json": "event_unparsable",
    "empty": "event_unparsable",
    "bad_id": "event_bad_id",
    "unknown_policy": "policy_unknown",
}
ATTEMPT_FAULTS = (
    "poll.failed",
    "poll.not_found",
    "images.failed",
    "download.truncated",
    "download.refused",
    "service.forgets",
)
UNCERTAIN_FAULTS = (
    "submit.answer_lost",
    "submit.request_lost",
    "submit.http_500",
    "service.bad_gateway",
)


class Judge:
    def __init__(self, world: World) -> None:
        self.world = world
        self.results: set[tuple[str, str]] = set()
        self.bundle_results: Counter[str] = Counter()
        self.dead_letters: dict[tuple[int, int, str], str] = {}
        self._bodies: dict[str, bytes | None] = {}
        self._replayed: set[str] = set()
        self._before = self._metric_sums()

    # -- as it happens -------------------------------------------------------------------------

    def on_output(self, output: Output) -> None:
        topic = output.message.topic
        if topic == "bundles.results.v1":
            self._on_result(output)
        elif topic == "bundles.dead-letters.v1":
            self._on_dead_letter(output)

    def _on_result(self, output: Output) -> None:
        identifier = output.header(names.CE_ID) or ""
        value = output.message.value
        before = self._bodies.setdefault(identifier, value)
        if before != value:
            self.world.violated(f"result {identifier} has two bodies:\n{before!r}\n{value!r}")
        body = json.loads(value or b"")
        if "documents" in body:
            self.bundle_results[body["bundle_id"]] += 1
        else:
            self.results.add((body["bundle_id"], body["document_id"]))
            self._check_result(body)

    def _check_result(self, body: dict[str, Any]) -> None:
        """A result is said only when its manifest and all its images are durable."""
        stored = self.world.store._buckets[OUTPUT_BUCKET]
        manifest = stored.get(body["manifest"]["key"])
        if manifest is None:
            self.world.violated("a result was published before its manifest stood")
            return
        if hashlib.sha256(manifest.body).hexdigest() != body["manifest"]["sha256"]:
            self.world.violated("a result does not have its manifest's checksum")
        for image in json.loads(manifest.body)["images"]:
            if image["key"] not in stored:
                self.world.violated("a manifest names an image that is not stored")

    def _on_dead_letter(self, output: Output) -> None:
        partition = int(output.header(names.DLQ_PARTITION) or -1)
        offset = int(output.header(names.DLQ_OFFSET) or -1)
        reason = output.header(names.DLQ_REASON) or ""
        document = output.header(names.DLQ_DOCUMENT_ID) or ""
        record = self.world.broker.partitions[partition][offset]
        claim = output.header(names.DLQ_CLAIM_CHECK)
        original = output.message.value
        if claim is not None:
            key = claim.removeprefix(f"s3://{OUTPUT_BUCKET}/")
            original = self.world.store._buckets[OUTPUT_BUCKET][key].body
        if original != record.value_bytes:
            self.world.violated("a dead letter does not carry the original bytes")
        self.dead_letters[partition, offset, document] = reason
        event = self.world.plans[partition, offset]
        if reason in RESUMABLE and self.world.scenario.replay_resumable:
            self._replay(event, output)

    def _replay(self, event: EventPlan, output: Output) -> None:
        if event.bundle_id in self._replayed:
            return
        self._replayed.add(event.bundle_id)
        again = EventPlan(
            self.world.agenda.now + 60.0,
            event.partition,
            event.bundle_id,
            event.documents,
            padding=event.padding,
        )
        self.world.announce(again, headers=((names.REPLAY_COUNT, b"1"),))

    def before_commit(self, partition: int, before: int, offset: int) -> None:
        if offset < before:
            self.world.violated(f"committed offset of {partition} went from {before} to {offset}")
        for passed in range(before, offset):
            event = self.world.plans[partition, passed]
            for missing in self._not_settled(event, partition, passed):
                self.world.violated(f"offset {partition}/{passed} committed without {missing}")

    def _not_settled(self, event: EventPlan, partition: int, offset: int) -> Iterator[str]:
        if event.malformed is not None:
            if (partition, offset, "") not in self.dead_letters:
                yield "its dead letter"
            return
        for document in event.documents:
            done = (event.bundle_id, document.document_id) in self.results
            letter = (partition, offset, document.document_id) in self.dead_letters
            if not done and not letter:
                yield f"an end of {document.document_id}"
        if not self.bundle_results[event.bundle_id]:
            yield "its bundle's result"

    def on_journal(self, worker: SimWorker, message: Message) -> None:
        line = json.loads(message.value or b"")
        if line["event"] != "ended":
            return
        record = self.world.broker.partitions[line["partition"]][line["offset"]]
        taken = worker.clock.time() - record.timestamp()[1] / 1000
        # A clock that is behind the event's cannot say how long the event had waited.
        if worker.clock.skew_s >= 0 and abs(taken - line["seconds"]) > 0.002:
            self.world.violated(f"end to end {line['seconds']} s, but {taken} s passed")

    # -- at the end ----------------------------------------------------------------------------

    def at_the_end(self) -> None:
        self._check_documents()
        self._check_jobs()
        self._check_leaks()
        self._check_metrics()

    def _plans(self) -> dict[tuple[str, str], DocumentPlan]:
        return {
            (event.bundle_id, document.document_id): document
            for event in self.world.plans.values()
            if event.malformed is None
            for document in event.documents
        }

    def _check_documents(self) -> None:
        world = self.world
        stored = world.store._buckets[OUTPUT_BUCKET]
        manifests: dict[tuple[str, str], list[str]] = {}
        for key in stored:
            if key.endswith("/manifest.json"):
                bundle, document = key.split("/")[:2]
                manifests.setdefault((bundle, document), []).append(key)
        records = self._records()
        for (partition, offset, document_id), reason in self.dead_letters.items():
            event = world.plans[partition, offset]
            if event.malformed is not None:
                if reason != BY_MALFORMED[event.malformed]:
                    world.violated(f"a {event.malformed} event was dead-lettered as {reason}")
                continue
            plan = next(d for d in event.documents if d.document_id == document_id)
            record = records.get((event.bundle_id, document_id))
            if not self._explained(reason, plan, record):
                world.violated(f"{document_id} ({plan.trait}) is dead-lettered as {reason}")
        for place, plan in self._plans().items():
            found = manifests.get(place, [])
            if len(found) > 1:
                world.violated(f"{place} has {len(found)} manifests")
            if place in self.results and not found:
                world.violated(f"{place} has a result and no manifest")
            if found:
                self._check_manifest(plan, json.loads(stored[found[0]].body))

    def _check_manifest(self, plan: DocumentPlan, manifest: dict[str, Any]) -> None:
        stored = self.world.store._buckets[OUTPUT_BUCKET]
        expected = []
        for page, names_of_page in enumerate(_pages(plan), start=1):
            for index, image in enumerate(names_of_page, start=1):
                data = image_bytes(image, plan.trait)
                expected.append(
                    (f"page-{page:03d}-image-{index:03d}", hashlib.sha256(data).hexdigest())
                )
        actual = [(image["name"], image["sha256"]) for image in manifest["images"]]
        if actual != expected:
            self.world.violated(f"{plan.document_id}: wrong images: {actual}, not {expected}")
        for image in manifest["images"]:
            body = stored[image["key"]].body
            if hashlib.sha256(body).hexdigest() != image["sha256"]:
                self.world.violated(f"{plan.document_id}: a stored image has other bytes")

    def _records(self) -> dict[tuple[str, str], dict[str, Any]]:
        records = {}
        for key, entry in self.world.store._buckets[OUTPUT_BUCKET].items():
            if key.startswith("_jobs/"):
                record = json.loads(entry.body)
                records[record["bundle_id"], record["document_id"]] = record
        return records

    def _explained(self, reason: str, plan: DocumentPlan, record: dict[str, Any] | None) -> bool:
        if reason in BY_TRAIT.get(plan.trait, frozenset()):
            return plan.trait is not Trait.FAILS_ONCE or self._resubmits == 0
        if record is None:
            return False
        failed = {Trait.FAILS_ONCE: 1, Trait.FAILS_EVERY_JOB: self._resubmits}.get(plan.trait, 0)
        return any(
            self._shard_explains(reason, shard["job_key"], failed) for shard in record["shards"]
        )

    @property
    def _resubmits(self) -> int:
        return self.world.scenario.policy.retries.max_resubmits

    def _shard_explains(self, reason: str, job_key: str, failed_jobs: int) -> bool:
        """What was done to this shard's jobs is enough for a dead letter with ``reason``."""
        world, retries = self.world, self.world.scenario.policy.retries
        count = world.faults.count
        uncertain = count(job_key, *UNCERTAIN_FAULTS)
        match reason:
            case "attempts_exhausted":
                return count(job_key, *ATTEMPT_FAULTS) >= retries.max_attempts_per_call
            case "submit_uncertain":
                if world.scenario.service.idempotent:
                    return uncertain >= retries.max_attempts_per_call
                used = uncertain + failed_jobs + count(job_key, "service.forgets", "poll.not_found")
                return (uncertain > 0 and used > self._resubmits) or world.scenario.disturbed
            case "deadline":  # it was done, and the service kept saying words that nobody knows
                return count(job_key, "poll.unknown_status") > 0
            case "job_forgotten" if world.scenario.service.synchronous:
                return count(job_key, "download.expired") > retries.max_attempts_per_call
            case "job_forgotten":
                lost = count(job_key, "service.forgets", "poll.not_found")
                return lost > 0 and lost + failed_jobs > self._resubmits
            case _:
                return False

    @property
    def _replays(self) -> int:
        """A replay may have a job follow one that had failed."""
        return 1 if self._replayed else 0

    def _check_jobs(self) -> None:
        """Nobody pays twice: a further job needs one that was lost or failed."""
        world = self.world
        scenario, service = world.scenario, world.service
        keys = Counter(job.key for job in service.jobs.values() if not job.forgotten)
        for job_key in {job.victim for job in service.jobs.values()}:
            jobs = service.jobs_of(job_key)
            lost = sum(job.forgotten or job.failure_kind != "document" for job in jobs)
            lost += self._replays * sum(job.verdict is JobState.FAILED for job in jobs)
            if world.faults.count(job_key, "poll.not_found") > (
                scenario.policy.retries.not_found_grace
            ):
                lost += world.faults.count(job_key, "poll.not_found")
            uncertain = 0
            if not scenario.service.idempotent and not scenario.service.finds:
                uncertain = world.faults.count(job_key, *UNCERTAIN_FAULTS) + 3 * scenario.disturbed
            if len(jobs) > 1 + lost + uncertain:
                world.violated(
                    f"{len(jobs)} jobs for {jobs[0].document.name}, {lost} of them lost: "
                    f"{[(j.job_id, j.key, j.deleted_by_us) for j in jobs]}"
                )
        if scenario.service.idempotent or scenario.service.finds:
            for key, made in keys.items():
                if made > 1:
                    world.violated(f"{made} jobs for the one idempotency key {key}")

    def _check_leaks(self) -> None:
        world = self.world
        for worker in (*world.workers, *world.dead):
            services = worker.services
            slots = (provider.slots for provider in services.providers.values())
            for limiter in (services.documents, *slots, *services.call_places.values()):
                if limiter.in_use or limiter.waiting:
                    world.violated(f"{worker.name}: {limiter.in_use} permits are never released")
            if worker.dead:
                continue
            if services.workspace.used_bytes or any(services.workspace.path.iterdir()):
                world.violated(f"{worker.name}: temporary files are left")
            if worker.generations:
                still_open = [d.name for d in services.dependencies() if d.breaker.is_open]
                if still_open:
                    world.violated(f"{worker.name}: breakers stay open: {still_open}")
                if services.storm.on:
                    world.violated(f"{worker.name}: the storm never ends")

    def _check_metrics(self) -> None:
        before, after = self._before, self._metric_sums()
        gone = {name: after[name] - before[name] for name in after}
        if abs(gone["causes"] - gone["end_to_end"]) > 1e-3:
            self.world.violated(f"the causes of time do not add up: {gone}")
        for gauge in ("documents_in_progress", "jobs_in_flight", "stages_in_progress"):
            if abs(gone[gauge]) > 1e-9:
                self.world.violated(f"gauge {gauge} is off by {gone[gauge]}")

    def _metric_sums(self) -> dict[str, float]:
        metrics = self.world.metrics
        return {
            "causes": _sum(metrics.cause),
            "end_to_end": _sum(metrics.end_to_end),
            "documents_in_progress": metrics.documents_in_progress._value.get(),
            "jobs_in_flight": _sum(metrics.jobs_in_flight),
            "stages_in_progress": _sum(metrics.stage_in_progress),
        }


def _sum(metric: Any) -> float:
    """Over all label values; of a histogram, of what was observed."""
    children = metric._metrics.values()
    return float(
        sum((child._sum if hasattr(child, "_sum") else child._value).get() for child in children)
    )


def _pages(plan: DocumentPlan) -> list[list[str]]:
    """The images that each page of the document has, by what its sources hold."""
    pages: list[list[str]] = []
    for segment in plan.segments:
        body = segment.source.body or b""
        content = json.loads(body.split(b"\n", 1)[1])["pages"]
        first, last = segment.pages or (1, len(content))
        pages += content[first - 1 : last]
    return pages
