"""The job record of one extraction, kept in step with the store while its jobs run.

The record in the store is the truth; what is held here is the last version that was seen. Changes
go through `update`, one at a time, conditional on that version. When another worker changed the
record meanwhile, `RecordChanged` is raised after reloading: the caller decides anew.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from consumers.extraction.calls import call
from consumers.extraction.scope import Scope
from consumers.extraction.services import Services
from consumers.extraction.timestamps import rfc3339
from consumers.runtime.effects import Acquire, Task
from consumers.runtime.limiter import Limiter
from schemas.job_record import JobPhase, JobRecord, JobShard
from schemas.policy import Retries
from sinks.objectstore import ObjectNotFound, PreconditionFailed


class RecordChanged(Exception):
    """Another worker wrote the record; the keeper now holds what it wrote."""


def begin(*, idempotent: bool, submits: int) -> dict[str, Any]:
    """How a shard's generation starts: where a repeated submit is harmless the record need not be
    written once more just before the call."""
    if idempotent:
        return {"phase": JobPhase.SUBMITTING, "submits": submits + 1}
    return {"phase": JobPhase.PLANNED, "submits": submits}


class RecordKeeper:
    def __init__(
        self,
        services: Services,
        scope: Scope,
        retries: Retries,
        record: JobRecord,
        etag: str,
        *,
        created: bool,
    ) -> None:
        self.record = record
        self.created = created
        """This keeper made the record: nothing was done for the document before."""
        self._etag = etag
        self._seen_at = services.clock.monotonic()
        self._services = services
        self._scope = scope
        self._retries = retries
        self._writing = Limiter(1)

    def shard(self, index: int) -> JobShard:
        return self.record.shards[index]

    @property
    def age_s(self) -> float:
        """Seconds since the record was read or written here."""
        return self._services.clock.monotonic() - self._seen_at

    @property
    def all_submitted(self) -> bool:
        return not any(
            shard.phase in (JobPhase.PLANNED, JobPhase.SUBMITTING) for shard in self.record.shards
        )

    def update(self, index: int, seen: JobShard, change: Callable[[JobShard], JobShard]) -> Task:
        """Task: the shard as written. Runs through a drain: what was paid for gets recorded.

        ``seen`` is the shard that the change was decided on. The jobs of all shards share this
        keeper, so what it holds may be newer.

        :raises RecordChanged: see the module.
        """
        permit = yield Acquire(self._writing, "record", through_drain=True)
        try:
            shards = list(self.record.shards)
            if shards[index] != seen:
                raise RecordChanged
            shards[index] = change(seen)
            yield from self._write(shards=tuple(shards))
            return shards[index]
        finally:
            permit.release()

    def revive(self, replays: int) -> Task:
        """Task: a replay goes on where the record ended. A timed-out job is polled on with new
        patience; a failed one may be followed by another job.

        :raises RecordChanged: see the module.
        """
        now = rfc3339(self._services.clock.time())
        shards = list(self.record.shards)
        for index, shard in enumerate(shards):
            if shard.phase is JobPhase.TIMED_OUT:
                again = {"phase": JobPhase.SUBMITTED, "failure": None, "resumed_at": now}
                shards[index] = shard.model_copy(update=again)
            elif shard.phase is JobPhase.FAILED:
                shards[index] = self.next_generation(shard)
        yield from self._write(shards=tuple(shards), replays=replays)

    def next_generation(self, shard: JobShard) -> JobShard:
        """A further job for the same pages, under a key of its own."""
        idempotent = self._services.providers[
            self.record.provider
        ].provider.abilities.idempotent_submit
        return shard.model_copy(
            update={
                "generation": shard.generation + 1,
                "job_id": None,
                "accepted_at": None,
                "resumed_at": None,
                "failure": None,
                **begin(idempotent=idempotent, submits=shard.submits),
            }
        )

    def reload(self) -> Task:
        """Task: True when the record was still there."""
        found = yield from self._store(
            "record_load", partial(self._services.records.load, self.record.extraction_id)
        )
        if found is None:
            return False
        self.record, self._etag = found
        self._seen_at = self._services.clock.monotonic()
        return True

    def find_manifest(self) -> Task:
        """Task: the extraction's manifest where it stands already (a `ManifestWrite`), or None."""
        with self._scope.timeline.during("storage"):
            return (
                yield from self._store(
                    "manifest_find",
                    partial(self._services.manifests.find, self.record.manifest_key),
                )
            )

    def _write(self, **changes: object) -> Task:
        record = self.record.model_copy(
            update={
                **changes,
                "updated_at": rfc3339(self._services.clock.time()),
                "owner": self._services.worker_id,
            }
        )
        with self._scope.timeline.during("storage"):
            try:
                self._etag = yield from self._store(
                    "record_update", partial(self._services.records.update, record, self._etag)
                )
            except (PreconditionFailed, ObjectNotFound):
                if not (yield from self.reload()):
                    # Deleted under a running job (by hand): put it back rather than lose the job.
                    yield from self._recreate(record)
                    return
                raise RecordChanged from None
        self.record = record
        self._seen_at = self._services.clock.monotonic()

    def _recreate(self, record: JobRecord) -> Task:
        stored, self._etag, created = yield from self._store(
            "record_create", partial(self._services.records.create, record)
        )
        self.record = stored
        if not created:
            raise RecordChanged

    def _store(self, operation: str, fn: Callable[[], object]) -> Task:
        services = self._services
        return (
            yield from call(
                services,
                self._scope,
                services.output,
                operation,
                fn,
                retries=self._retries,
                handles=(PreconditionFailed, ObjectNotFound),
            )
        )


def open_record(services: Services, scope: Scope, retries: Retries, record: JobRecord) -> Task:
    """Task: the `RecordKeeper` of ``record``, created now or found as somebody else left it."""
    with scope.timeline.during("storage"):
        stored, etag, created = yield from call(
            services,
            scope,
            services.output,
            "record_create",
            partial(services.records.create, record),
            retries=retries,
        )
    return RecordKeeper(services, scope, retries, stored, etag, created=created)


def find_record(services: Services, scope: Scope, retries: Retries, extraction_id: str) -> Task:
    """Task: the `RecordKeeper` of a known extraction, or None."""
    with scope.timeline.during("storage"):
        found = yield from call(
            services,
            scope,
            services.output,
            "record_load",
            partial(services.records.load, extraction_id),
            retries=retries,
        )
    if found is None:
        return None
    return RecordKeeper(services, scope, retries, *found, created=False)
