"""Job records: created before the remote call, replaced version by version after it."""

from __future__ import annotations

from typing import NamedTuple

from schemas.canonical import canonical_json
from schemas.identity import job_record_key
from schemas.job_record import JobRecord
from sinks import stored_models
from sinks.objectstore import ObjectStore, PutKind, StoreUnavailable
from sinks.stored_models import JSON, StoredModel, UnreadableObject

MAX_BYTES = 8 * 1024 * 1024


class LoadedRecord(NamedTuple):
    record: JobRecord
    etag: str


class CreatedRecord(NamedTuple):
    """`record` is the one that stands in the store, whoever created it."""

    record: JobRecord
    etag: str
    created: bool


class JobRecordStore:
    def __init__(self, store: ObjectStore, bucket: str) -> None:
        self._store = store
        self._bucket = bucket

    def create(self, record: JobRecord) -> CreatedRecord:
        """Create the record, or return the one that stands already.

        `created` is true only if this very call made it, also where the store's answer was lost
        and the record read back. Two calls with equal bytes (same worker, same `created_at`) give
        false at least once, so that never two of them believe to be the first; after an
        AmbiguousWrite a repeated call gives false though the record may be its own.
        Raises StoreError, UnreadableObject.
        """
        body = canonical_json(record)
        key = job_record_key(record.extraction_id)
        outcome = self._store.put_if_absent(self._bucket, key, body, content_type=JSON)
        if outcome.kind is not PutKind.CONFLICT:
            made_here = outcome.kind is PutKind.CREATED or outcome.resolved_ambiguity
            return CreatedRecord(record, outcome.etag, made_here)
        standing = self.load(record.extraction_id)
        if standing is None:
            raise StoreUnavailable(
                "put_if_absent",
                self._bucket,
                "a job record was deleted while another was being created",
                kind="attempt",
            )
        return CreatedRecord(standing.record, standing.etag, created=False)

    def load(self, extraction_id: str) -> LoadedRecord | None:
        """Raises StoreError, UnreadableObject."""
        found: StoredModel[JobRecord] | None = stored_models.load(
            self._store,
            self._bucket,
            job_record_key(extraction_id),
            JobRecord,
            max_bytes=MAX_BYTES,
        )
        if found is None:
            return None
        if found.model.extraction_id != extraction_id:
            raise UnreadableObject("get", self._bucket, "a job record of another extraction")
        return LoadedRecord(found.model, found.etag)

    def update(self, record: JobRecord, etag: str) -> str:
        """Replace the version `etag`; returns the new ETag.

        Succeeds if the store already holds exactly this record: a repeated call finds its own
        write. Raises PreconditionFailed (another worker replaced it), ObjectNotFound, StoreError.
        """
        return self._store.replace_if_match(
            self._bucket,
            job_record_key(record.extraction_id),
            canonical_json(record),
            etag=etag,
            content_type=JSON,
        )
