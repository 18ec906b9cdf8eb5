"""Deletes what nobody needs any more, and nothing else. See `bundles sweep`.

Everything is listed once, in key order, and decided one document at a time. Orders that a sweep
that is cut off leaves sound: a manifest goes before its images, a record after its manifest. What
is left then is an orphan, and the next sweep's.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from consumers.extraction import workspace
from consumers.operations.layout import (
    DEAD_LETTERS,
    JOBS,
    REPLAYS,
    StoredDocument,
    documents,
    policy_name,
    without_reserved,
)
from consumers.operations.protection import Protection
from consumers.operations.retention import DAY_S, Area, Kept, Rules, Why
from consumers.operations.storage import Pace, Sleep, listed, patiently, read_ahead
from schemas.job_record import JobRecord
from schemas.manifest import Manifest
from sinks.job_records import MAX_BYTES as MAX_RECORD_BYTES
from sinks.manifests import ManifestStore
from sinks.objectstore import ListedObject, ObjectNotFound, ObjectStore
from sinks.stored_models import UnreadableObject

BATCH = 100
"""Objects per delete call, and documents with orphan candidates that are settled together."""

_UPLOAD = re.compile(r"uploads/[0-9a-f]{2}/([0-9a-f]{64})\.pdf")


@dataclass(frozen=True, slots=True)
class Deletion:
    """One object (or a dead worker's directory) that goes, or would."""

    area: Area
    why: Why
    key: str
    bytes: int
    age_s: float | None


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """``start_after``: a report's ``resume``. ``claim_check_s``: how long dead letters' moved
    values and replay markers are kept. ``uploads_s``: None leaves uploads alone."""

    apply: bool = False
    min_age_s: float = DAY_S
    claim_check_s: float = 90 * DAY_S
    uploads_s: float | None = None
    per_second: float = 200.0
    max_deletions: int | None = None
    start_after: str | None = None
    threads: int = 8


@dataclass(slots=True)
class SweepReport:
    """``deleted`` (or would be) and ``kept`` count objects by area and reason; ``resume`` is where
    to go on, None when everything was walked through. ``raced``: documents whose manifest appeared
    while their orphans were deleted and names one of those; they need `bundles verify`."""

    applied: bool
    looked_at: int = 0
    deleted: Counter[tuple[Area, Why]] = field(default_factory=Counter)
    deleted_bytes: int = 0
    kept: Counter[tuple[Area, Kept]] = field(default_factory=Counter)
    raced: list[str] = field(default_factory=list)
    resume: str | None = None

    def as_dict(self) -> dict[str, object]:
        return {
            "applied": self.applied,
            "looked_at": self.looked_at,
            "deleted": sum(self.deleted.values()),
            "deleted_bytes": self.deleted_bytes,
            "deleted_by": {f"{a}/{w}": n for (a, w), n in sorted(self.deleted.items())},
            "kept_by": {f"{a}/{k}": n for (a, k), n in sorted(self.kept.items())},
            "raced": self.raced,
            "resume": self.resume,
        }


class Enough(Exception):
    """`SweepOptions.max_deletions` is reached."""


class Sweep:
    """One walk. ``on_deletion`` hears of every object before it goes (or would)."""

    def __init__(
        self,
        store: ObjectStore,
        bucket: str,
        rules: Rules,
        options: SweepOptions,
        *,
        uploads: tuple[ObjectStore, str] | None = None,
        temp_root: Path | None = None,
        on_deletion: Callable[[Deletion], None] = lambda _: None,
        clock: Callable[[], float] = time.time,
        sleep: Sleep = time.sleep,
    ) -> None:
        self.report = SweepReport(options.apply)
        self._store, self._bucket, self._rules, self._options = store, bucket, rules, options
        self._uploads, self._temp_root = uploads, temp_root
        self._on_deletion = on_deletion
        self._clock, self._sleep = clock, sleep
        self._pace = Pace(options.per_second, sleep=sleep)
        self._manifests = ManifestStore(store, bucket)
        self._protection = Protection(
            store, bucket, rules, threads=options.threads, clock=clock, sleep=sleep
        )

    def run(self) -> SweepReport:
        """Walk all areas. The report is in `report` too, also when this raises.

        :raises StoreError: the store failed for longer than patience lasts; ``report.resume`` says
            where to go on.
        """
        first, _, key = (self._options.start_after or "").partition(":")
        areas = list(Area)
        start = areas.index(Area(first)) if first else 0
        walks: dict[Area, Callable[[str | None], None]] = {
            Area.DOCUMENTS: self._documents,
            Area.RECORDS: self._records,
            Area.DEAD_LETTERS: lambda after: self._claims(
                Area.DEAD_LETTERS, DEAD_LETTERS, Why.CLAIM_CHECK_EXPIRED, after
            ),
            Area.REPLAYS: lambda after: self._claims(
                Area.REPLAYS, REPLAYS, Why.REPLAY_MARKER_EXPIRED, after
            ),
            Area.UPLOADS: self._abandoned,
            Area.TEMP: self._temp,
        }
        try:
            for area in areas[start:]:
                after = key if area is areas[start] and key else None
                self.report.resume = f"{area}:{after or ''}"
                walks[area](after)
            self.report.resume = None
        except Enough:
            pass
        return self.report

    # -- documents: orphaned images, outputs past retention --------------------------------------

    def _documents(self, after: str | None) -> None:
        waiting: list[StoredDocument] = []
        found = read_ahead(
            documents(self._walk_documents(after), self._foreign(Area.DOCUMENTS)),
            self._manifest_of,
            threads=self._options.threads,
        )
        for document, manifest in found:
            self.report.looked_at += len(document.images) + (document.manifest is not None)
            if self._settle_with_manifest(document, manifest):
                waiting.append(document)
                if len(waiting) == BATCH:
                    self._settle_orphans(waiting)
                    waiting = []
            if not waiting:
                self.report.resume = f"{Area.DOCUMENTS}:{document.last_key}"
        self._settle_orphans(waiting)

    def _walk_documents(self, after: str | None) -> Iterator[ListedObject]:
        return without_reserved(
            lambda start: listed(self._store, self._bucket, start_after=start, sleep=self._sleep),
            after,
        )

    def _manifest_of(self, document: StoredDocument) -> Manifest | Kept | None:
        if document.manifest is None or self._rules.held(document.policy_name):
            return None
        return self._read_manifest(document.manifest_key)

    def _read_manifest(self, key: str) -> Manifest | Kept | None:
        try:
            found = patiently(lambda: self._manifests.find(key), sleep=self._sleep)
        except UnreadableObject:
            return Kept.UNREADABLE
        return None if found is None else found.manifest

    def _settle_with_manifest(
        self, document: StoredDocument, manifest: Manifest | Kept | None
    ) -> bool:
        """True when there are old images and no manifest: their job's record decides."""
        held = self._rules.held(document.policy_name)
        if held is not None:
            self._keep(Area.DOCUMENTS, held, len(document.images) or 1)
            return False
        if document.manifest is None:
            return bool(self._old(document.images))
        if isinstance(manifest, Kept):
            self._keep(Area.DOCUMENTS, manifest, len(document.images) + 1)
            return False
        if manifest is None:
            return False  # deleted since it was listed: the next sweep sees what is left
        age = self._age(document.manifest)
        if self._rules.output_expired(document.policy_name, age):
            self._delete(Area.DOCUMENTS, Why.OUTPUT_EXPIRED, [document.manifest])
            self._delete(Area.DOCUMENTS, Why.OUTPUT_EXPIRED, document.images)
            return False
        named = {image.key for image in manifest.images}
        unnamed = [image for image in document.images if image.key not in named]
        self._delete(Area.DOCUMENTS, Why.ORPHAN, self._old(unnamed))
        return False

    def _settle_orphans(self, candidates: Sequence[StoredDocument]) -> None:
        if not candidates:
            return
        self._protection.refresh()
        for document in candidates:
            old = self._old(document.images)
            if self._protection.covers(document.prefix):
                self._keep(Area.DOCUMENTS, Kept.RUNNING, len(old))
            elif self._read_manifest(document.manifest_key) is None:
                try:
                    self._delete(Area.DOCUMENTS, Why.ORPHAN, old)
                finally:
                    if self._options.apply:
                        self._check_race(document, old)
            self.report.resume = f"{Area.DOCUMENTS}:{document.last_key}"

    def _check_race(self, document: StoredDocument, deleted: Sequence[ListedObject]) -> None:
        """A job that came back to life between our look at its record and the deletion may have
        taken an old image for durable. The store has no condition that could rule it out."""
        manifest = self._read_manifest(document.manifest_key)
        gone = {image.key for image in deleted}
        if isinstance(manifest, Manifest) and any(i.key in gone for i in manifest.images):
            self.report.raced.append(document.prefix)

    def _old(self, images: Sequence[ListedObject]) -> list[ListedObject]:
        old = [image for image in images if self._age(image) > self._options.min_age_s]
        self._keep(Area.DOCUMENTS, Kept.YOUNG, len(images) - len(old))
        return old

    # -- job records -----------------------------------------------------------------------------

    def _records(self, after: str | None) -> None:
        shortest = self._rules.shortest_record_s
        if shortest is None:
            return
        everything = listed(self._store, self._bucket, JOBS, start_after=after, sleep=self._sleep)
        old = (item for item in everything if self._age(item) > shortest)
        for item, record in read_ahead(old, self._record_of, threads=self._options.threads):
            self.report.looked_at += 1
            why_not = self._why_keep(item, record)
            if why_not is None:
                self._delete(Area.RECORDS, Why.RECORD_EXPIRED, [item])
            else:
                self._keep(Area.RECORDS, why_not)
            self.report.resume = f"{Area.RECORDS}:{item.key}"

    def _why_keep(self, item: ListedObject, record: JobRecord | None) -> Kept | None:
        if record is None:
            return Kept.UNREADABLE
        policy = policy_name(record.policy_version)
        held = self._rules.held(policy)
        if held is not None:
            return held
        if not self._rules.record_expired(policy, self._age(item)):
            return Kept.YOUNG
        return Kept.MANIFEST_STANDS if self._exists(record.manifest_key) else None

    def _record_of(self, item: ListedObject) -> JobRecord | None:
        try:
            found = patiently(
                lambda: self._store.get(self._bucket, item.key, max_bytes=MAX_RECORD_BYTES),
                sleep=self._sleep,
            )
            return JobRecord.model_validate_json(found.body)
        except (ObjectNotFound, ValidationError):
            return None

    def _exists(self, key: str) -> bool:
        try:
            patiently(lambda: self._store.head(self._bucket, key), sleep=self._sleep)
        except ObjectNotFound:
            return False
        return True

    # -- claim checks, replay markers ------------------------------------------------------------

    def _claims(self, area: Area, prefix: str, why: Why, after: str | None) -> None:
        for item in listed(self._store, self._bucket, prefix, start_after=after, sleep=self._sleep):
            self.report.looked_at += 1
            if self._age(item) <= self._options.claim_check_s:
                self._keep(area, Kept.YOUNG)
            elif self._rules.any_hold:
                # Which policy the moved value was under, only its content says.
                self._keep(area, Kept.LEGAL_HOLD)
            else:
                self._delete(area, why, [item])
            self.report.resume = f"{area}:{item.key}"

    # -- uploads ---------------------------------------------------------------------------------

    def _abandoned(self, after: str | None) -> None:
        bound = self._options.uploads_s
        if bound is None or self._uploads is None:
            return
        store, bucket = self._uploads
        if self._rules.any_hold:
            self._keep(Area.UPLOADS, Kept.LEGAL_HOLD)
            return
        used = self._sources_in_use(bucket)
        for item in listed(store, bucket, "uploads/", start_after=after, sleep=self._sleep):
            self.report.looked_at += 1
            if _UPLOAD.fullmatch(item.key) is None:
                self._keep(Area.UPLOADS, Kept.FOREIGN)
            elif self._age(item) <= bound:
                self._keep(Area.UPLOADS, Kept.YOUNG)
            elif _short(item.key) in used:
                self._keep(Area.UPLOADS, Kept.IN_USE)
            else:
                self._delete(Area.UPLOADS, Why.UPLOAD_ABANDONED, [item], place=self._uploads)
            self.report.resume = f"{Area.UPLOADS}:{item.key}"

    def _sources_in_use(self, bucket: str) -> set[bytes]:
        """Sixteen bytes per source that a job record names."""
        used: set[bytes] = set()
        everything = listed(self._store, self._bucket, JOBS, sleep=self._sleep)
        for _, record in read_ahead(everything, self._record_of, threads=self._options.threads):
            if record is not None:
                used.update(_short(s.key) for s in record.segments if s.bucket == bucket)
        return used

    # -- temporary files -------------------------------------------------------------------------

    def _temp(self, after: str | None) -> None:
        if self._temp_root is None:
            return
        left = workspace.sweep(self._temp_root, remove=self._options.apply)
        if left.owners:
            self._on_deletion(
                Deletion(Area.TEMP, Why.DEAD_WORKER, str(self._temp_root), left.bytes, None)
            )
            self.report.deleted[Area.TEMP, Why.DEAD_WORKER] += left.files
            self.report.deleted_bytes += left.bytes
        self._keep(Area.TEMP, Kept.RUNNING, left.live)

    # -- inside ----------------------------------------------------------------------------------

    def _delete(
        self,
        area: Area,
        why: Why,
        items: Sequence[ListedObject],
        *,
        place: tuple[ObjectStore, str] | None = None,
    ) -> None:
        store, bucket = place or (self._store, self._bucket)
        enough = False
        for start in range(0, len(items), BATCH):
            batch = list(items[start : start + BATCH])
            if self._options.max_deletions is not None:
                room = self._options.max_deletions - sum(self.report.deleted.values())
                enough = len(batch) > room
                batch = batch[:room]
            for item in batch:
                self._on_deletion(Deletion(area, why, item.key, item.size, self._age(item)))
            if self._options.apply and batch:
                self._pace.wait(len(batch))
                keys = [item.key for item in batch]
                patiently(lambda: store.delete_many(bucket, keys), sleep=self._sleep)  # noqa: B023
            self.report.deleted[area, why] += len(batch)
            self.report.deleted_bytes += sum(item.size for item in batch)
            if enough:
                raise Enough

    def _keep(self, area: Area, why: Kept, count: int = 1) -> None:
        if count:
            self.report.kept[area, why] += count

    def _foreign(self, area: Area) -> Callable[[ListedObject], None]:
        return lambda _: self._keep(area, Kept.FOREIGN)

    def _age(self, item: ListedObject) -> float:
        return self._clock() - item.last_modified.timestamp()


def _short(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()[:16]
