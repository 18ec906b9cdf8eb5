"""One document from event to result, as one linear task. Start reading here.

    known already? ─► fetch ─► validate ─► job record ─► jobs (submit, poll) ─► images, manifest
    ─► result ─► clean up

Whatever was done before (by this worker, by another, before a crash) is found again through the job
record and the manifest, and not done a second time.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from consumers.extraction.forgetting import forget_job
from consumers.extraction.jobs import Job, another_job, run_job, submit_again
from consumers.extraction.local_document import Local, LocalDocument
from consumers.extraction.manifest_building import Finished, check_complete
from consumers.extraction.persist import JobLost, persist
from consumers.extraction.publishing import publish_document_result
from consumers.extraction.record_keeper import (
    RecordChanged,
    RecordKeeper,
    begin,
    find_record,
    open_record,
)
from consumers.extraction.scope import DocumentFailed, Scope
from consumers.extraction.services import ProviderService, Services
from consumers.extraction.shards import Ranges, halved, max_bytes, plan_shards, to_measure
from consumers.extraction.timestamps import rfc3339
from consumers.runtime.effects import SafePoint, Task, Together
from schemas.events import BundleEvent, Document
from schemas.identity import extraction_id, manifest_key, shard_key
from schemas.job_record import JobPhase, JobRecord, JobShard
from schemas.manifest import ManifestSegment
from schemas.policy import Policy
from schemas.reasons import Reason
from schemas.results import DocumentOutcome


def process_document(
    services: Services,
    scope: Scope,
    policy: Policy,
    event: BundleEvent,
    document: Document,
    *,
    replays: int = 0,
    revive: bool = False,
) -> Task:
    """Task: the `DocumentOutcome` of an extracted document, its result acknowledged.

    ``replays`` is how often the event was replayed: a first time more than the record knows of
    revives what had failed or timed out, and so does ``revive``.

    :raises DocumentFailed: the document ends as a dead letter.
    """
    provider = services.providers[policy.provider]
    local = LocalDocument(services, scope, policy, event.bundle_id, document)
    try:
        keeper = yield from _keeper(
            services,
            scope,
            policy,
            event,
            document,
            local,
            provider,
            look_first=scope.origin.maybe_seen or replays > 0 or revive,
        )
        local.expect(keeper.record.submitted_sha256)
        write = None if keeper.created else (yield from keeper.find_manifest())
        if write is None:
            if revive or replays > keeper.record.replays:
                yield from _revive(keeper, replays)
            write = yield from _extract(services, scope, policy, provider, keeper, local)
        else:
            scope.note("manifest_found", stage="accept", images=len(write.manifest.images))
        check_complete(policy, write.manifest.problems)
        local.drop()
        yield from publish_document_result(services, scope, write)
        yield from _clean_up(services, scope, policy, provider, keeper)
    finally:
        local.close()
    return DocumentOutcome(
        document_id=document.document_id,
        status="extracted",
        extraction_id=keeper.record.extraction_id,
        images=len(write.manifest.images),
        manifest_key=keeper.record.manifest_key,
    )


# -- what is known already ---------------------------------------------------------------------


def _keeper(
    services: Services,
    scope: Scope,
    policy: Policy,
    event: BundleEvent,
    document: Document,
    local: LocalDocument,
    provider: ProviderService,
    *,
    look_first: bool,
) -> Task:
    """Task: the keeper of the record: an earlier one, found without fetching anything where the
    event tells the checksums, or a new one.

    Without ``look_first`` (nobody can have had this event before) it is created at once: that says
    whether it is there, which only the second announcement of a document ever finds.
    """
    checksums = [c for c in (s.source.sha256 for s in document.segments) if c]
    identifier: str | None = None
    with scope.stage("accept", cause="queue"):
        if len(checksums) == len(document.segments):
            identifier = _identify(scope, policy, event, document, checksums)
            if look_first:
                found = yield from find_record(services, scope, policy.retries, identifier)
                if found is not None:
                    return found
    try:
        return (
            yield from _open(services, scope, policy, event, document, local, provider, identifier)
        )
    except DocumentFailed:
        # Announced again after its sources were cleaned away: what it came to is still known.
        if look_first or identifier is None:
            raise
        found = yield from find_record(services, scope, policy.retries, identifier)
        if found is None:
            raise
        return found


def _identify(
    scope: Scope,
    policy: Policy,
    event: BundleEvent,
    document: Document,
    checksums: Sequence[str],
) -> str:
    identity = [(c, s.pages) for c, s in zip(checksums, document.segments, strict=True)]
    identifier = extraction_id(event.bundle_id, document.document_id, identity, policy.version)
    if scope.extraction_id is None:
        scope.extraction_id = identifier
        scope.note("accepted", stage="accept", wait_s=scope.timeline.seconds["queue"])
    return identifier


def _open(
    services: Services,
    scope: Scope,
    policy: Policy,
    event: BundleEvent,
    document: Document,
    local: LocalDocument,
    provider: ProviderService,
    identifier: str | None,
) -> Task:
    """Task: the keeper of the record, created by us or, in a race, by somebody else.

    ``identifier``: where the event tells the checksums, which are those of what is fetched then.
    """
    sources = yield from local.sources()
    if identifier is None:
        identifier = _identify(scope, policy, event, document, [s.sha256 for s in sources])
    here: Local = yield from local.ensure()
    services.metrics.document_bytes.observe(here.bytes)
    now = rfc3339(services.clock.time())
    shards: Ranges = yield from _shards(policy, provider, local, here)
    record = JobRecord(
        extraction_id=identifier,
        bundle_id=event.bundle_id,
        parent_bundle_id=event.parent_bundle_id,
        operation=event.operation,
        document_id=document.document_id,
        policy_version=policy.version,
        provider=policy.provider,
        segments=tuple(
            ManifestSegment(
                bucket=segment.source.bucket or services.input_bucket,
                key=segment.source.key,
                sha256=source.sha256,
                bytes=source.bytes,
                first_page=segment.pages.first if segment.pages else None,
                last_page=segment.pages.last if segment.pages else None,
            )
            for segment, source in zip(document.segments, sources, strict=True)
        ),
        submitted_sha256=here.sha256,
        submitted_bytes=here.bytes,
        pages=here.pages,
        page_map=here.page_runs,
        parser=here.parser,
        created_at=now,
        updated_at=now,
        owner=services.worker_id,
        shards=tuple(
            JobShard(
                first_page=first,
                last_page=last,
                job_key=identifier if len(shards) == 1 else shard_key(identifier, first, last),
                **begin(
                    idempotent=provider.provider.abilities.idempotent_submit,
                    submits=0,
                ),
            )
            for first, last in shards
        ),
        manifest_key=manifest_key(
            event.bundle_id, document.document_id, here.sha256, policy.version
        ),
    )
    yield SafePoint()
    return (yield from open_record(services, scope, policy.retries, record))


def _shards(policy: Policy, provider: ProviderService, local: LocalDocument, here: Local) -> Task:
    """Task: the `Ranges` of its jobs. Where a bound on bytes cuts it, the parts are made and
    measured: pages differ in size, and parts may share what is large.

    The job record keeps what came out: whoever goes on with the document asks there.
    """
    abilities = provider.provider.abilities
    ranges = plan_shards(here.pages, here.bytes, policy.sharding, abilities)
    bound = max_bytes(policy.sharding, abilities)
    if bound is None or here.bytes <= bound:
        return ranges
    sizes: dict[tuple[int, int], int] = {}
    while unknown := to_measure(ranges, sizes):
        outcomes = yield Together([_size_of(local, *pages) for pages in unknown])
        for pages, outcome in zip(unknown, outcomes, strict=True):
            if outcome.error is not None:
                raise outcome.error
            sizes[pages] = outcome.value
        ranges = halved(ranges, sizes, bound)
    return ranges


def _size_of(local: LocalDocument, first_page: int, last_page: int) -> Task:
    """Task: the bytes of a part."""
    part = yield from local.part(first_page, last_page)
    local.discard(part)
    return part.bytes


# -- jobs --------------------------------------------------------------------------------------


def _extract(
    services: Services,
    scope: Scope,
    policy: Policy,
    provider: ProviderService,
    keeper: RecordKeeper,
    local: LocalDocument,
) -> Task:
    """Task: the `ManifestWrite`."""
    again = 0
    while True:
        lost: JobLost | None = None
        try:
            finished = yield from _run_jobs(services, scope, policy, provider, keeper, local)
            local.drop()
            return (yield from persist(services, scope, policy, finished))
        except DocumentFailed as error:
            failure: Exception = error
        except JobLost as error:
            failure = lost = error
        except RecordChanged:
            scope.note("record_changed")
            continue
        # Another worker with this document may have been quicker, and have had the service forget
        # the job under us.
        write = yield from keeper.find_manifest()
        if write is not None:
            return write
        if lost is None:
            raise failure
        job, shard = lost.job, lost.job.shard
        again += lost.same_key_gives_it
        with suppress(RecordChanged):
            if lost.same_key_gives_it and again <= policy.retries.max_attempts_per_call:
                yield from submit_again(job, shard, lost.code)
            else:
                yield from another_job(job, shard, Reason.JOB_FORGOTTEN, lost.code)


def _revive(keeper: RecordKeeper, replays: int) -> Task:
    while True:
        try:
            yield from keeper.revive(max(replays, keeper.record.replays))
            return
        except RecordChanged:
            if replays <= keeper.record.replays:
                return  # another worker with the same replay did it


def _run_jobs(
    services: Services,
    scope: Scope,
    policy: Policy,
    provider: ProviderService,
    keeper: RecordKeeper,
    local: LocalDocument,
) -> Task:
    """Task: one `Finished` per shard, in page order."""
    count = len(keeper.record.shards)
    jobs = [
        Job(
            services,
            scope if count == 1 else scope.branch(),
            policy,
            provider,
            keeper,
            index,
            local,
        )
        for index in range(count)
    ]
    if count == 1:
        return [Finished(jobs[0], (yield from run_job(jobs[0])))]
    with scope.timeline.during("provider"):
        outcomes = yield Together([run_job(job) for job in jobs])
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error
    return [Finished(job, outcome.value) for job, outcome in zip(jobs, outcomes, strict=True)]


def _clean_up(
    services: Services,
    scope: Scope,
    policy: Policy,
    provider: ProviderService,
    keeper: RecordKeeper,
) -> Task:
    """Asks the service to forget what is durable here. Failing to is counted, never an error."""
    if not (policy.forget_after_manifest and provider.provider.abilities.forgets):
        return
    for shard in keeper.record.shards:
        if shard.phase is JobPhase.SUBMITTED and shard.job_id is not None:
            yield from forget_job(services, scope, provider, shard.job_id)
