"""Images of finished jobs: fetched, proven to be images, stored; then the manifest."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from consumers.extraction.calls import call, pause
from consumers.extraction.jobs import Job
from consumers.extraction.manifest_building import (
    Finished,
    NamedImage,
    build_manifest,
    check_complete,
    check_pages,
    name_images,
    page_of,
    problems_of,
)
from consumers.extraction.page_runs import source_page
from consumers.extraction.sandbox import ImageLimits, RejectedImage, VerifiedImage
from consumers.extraction.scope import DocumentFailed, Scope
from consumers.extraction.services import Dependency, Services
from consumers.extraction.workspace import DocumentFiles
from consumers.providers.errors import ImageExpired, JobNotFound, ResultGone
from consumers.providers.protocol import FetchedImage, JobState, JobStatus, RemoteImage
from consumers.runtime.effects import Acquire, Task, Together
from consumers.runtime.limiter import Limiter, Permit
from schemas.manifest import ManifestImage
from schemas.policy import Policy
from schemas.problems import Problem, number_of
from schemas.reasons import Reason
from sinks.manifests import ManifestWrite

BATCH = 16
"""Images that are fetched, checked and stored together: one sandbox call."""
LANES = 3
"""Batches of one document that are under way at the same time, each in another step: together they
bound its local images."""

TRANSFERS = 6
"""Images of one document that are fetched or stored at the same moment: more of them would queue in
the pools before the few calls of every small document behind it."""


class JobLost(Exception):
    """The service forgot a finished job before all of its images were here.

    ``same_key_gives_it``: a submit under the job's own key brings the result back.
    """

    def __init__(self, job: Job, code: str, *, same_key_gives_it: bool = False) -> None:
        super().__init__(f"the job is lost: {code}")
        self.job = job
        self.code = code
        self.same_key_gives_it = same_key_gives_it


def persist(services: Services, scope: Scope, policy: Policy, finished: Sequence[Finished]) -> Task:
    """Task: the `ManifestWrite` of the document. Images are durable before the manifest is.

    :raises DocumentFailed: pages are missing, or an image is not what it should be.
    :raises JobLost: another job may bring what this one cannot give any more.
    :raises RecordChanged: the record does not name these jobs any more.
    """
    with scope.stage("persist", cause="storage"):
        record = finished[0].job.keeper.record
        problems = problems_of(record, finished)
        try:
            check_complete(policy, problems)
        except DocumentFailed:
            _count(services, record.provider, problems)
            _note(scope, problems)
            raise
        named = yield from _list_images(services, scope, policy, finished)
        images: list[ManifestImage] = yield from _store_images(services, scope, policy, named)
        for item in finished:
            item.job.check_finished()
        manifest = build_manifest(finished[0].job.keeper.record, finished, images)
        write: ManifestWrite = yield from _call(
            services,
            scope,
            policy,
            services.output,
            "manifest_write",
            partial(services.manifests.write, manifest),
        )
        if write.outcome == "created":
            services.metrics.pages.inc(write.manifest.pages)
            services.metrics.images.inc(len(write.manifest.images))
            _count(services, write.manifest.provider, write.manifest.problems)
        _note(scope, write.manifest.problems)
        scope.note(
            "manifest_written",
            code=write.outcome,
            images=len(write.manifest.images),
            pages=write.manifest.pages,
        )
    return write


def _count(services: Services, provider: str, problems: Sequence[Problem]) -> None:
    for problem in problems:
        code = problem.code.value
        services.metrics.provider_problems.labels(provider, code).inc(problem.count or 1)


def _note(scope: Scope, problems: Sequence[Problem]) -> None:
    """Each of them stands in the manifest; in the ledger the first one and how many."""
    if problems:
        scope.note("incomplete", code=problems[0].code.value, problems=number_of(problems))


# -- listing -----------------------------------------------------------------------------------


def _list_images(
    services: Services, scope: Scope, policy: Policy, finished: Sequence[Finished]
) -> Task:
    listed: list[tuple[int, int, Finished, RemoteImage]] = []
    for item in finished:
        item.job.check_finished()
        job, shard = item.job, item.job.shard
        pages = shard.last_page - shard.first_page + 1
        check_pages(item.status, pages, job.provider.provider.abilities)
        remote: Sequence[RemoteImage] = item.status.images
        if not item.status.images_listed:
            remote = yield from _images_of(services, scope, policy, item)
        for image in remote:
            page = page_of(image, pages)
            listed.append((page + shard.first_page - 1, image.order, item, image))
        if len(listed) > policy.limits.max_images:
            raise DocumentFailed(Reason.TOO_MANY_IMAGES, "persist")
        assert job.shard.job_id is not None
    return name_images(listed)


def _images_of(services: Services, scope: Scope, policy: Policy, item: Finished) -> Task:
    job, provider = item.job, item.job.provider.provider
    document = None
    if provider.abilities.images_need_document:
        document = yield from job.local.part(job.shard.first_page, job.shard.last_page)
    try:
        return (
            yield from _ask(
                services,
                scope,
                policy,
                job,
                "images",
                partial(provider.images, job.shard.job_id or "", document),
            )
        )
    finally:
        if document is not None:
            job.local.discard(document)


def _ask(
    services: Services,
    scope: Scope,
    policy: Policy,
    job: Job,
    operation: str,
    fn: Callable[[], Any],
) -> Task:
    """Task: what the service says about a job that it had finished.

    :raises JobLost: it does not know the job any more, as patiently as while it ran.
    """
    missing = 0
    while True:
        try:
            return (
                yield from _call(
                    services,
                    scope,
                    policy,
                    job.provider.calls,
                    operation,
                    fn,
                    handles=(JobNotFound,),
                )
            )
        except JobNotFound as error:
            missing += 1
            scope.failed_attempt(error.code, missing, job_id=job.shard.job_id)
            if isinstance(error, ResultGone):
                raise JobLost(job, error.code, same_key_gives_it=True) from None
            if missing > policy.retries.not_found_grace:
                raise JobLost(job, error.code) from None
            yield from pause(
                services, scope, job.provider.calls, missing, policy.retries, reason="not_found"
            )


# -- storing -----------------------------------------------------------------------------------


def _store_images(
    services: Services, scope: Scope, policy: Policy, named: Sequence[NamedImage]
) -> Task:
    """Task: the `ManifestImage` of each, in order."""
    waiting = deque(range(0, len(named), BATCH))
    stored: dict[int, list[ManifestImage]] = {}
    files = services.workspace.document_files("images")
    transfers = Limiter(TRANSFERS)

    def lane() -> Task:
        while waiting:
            start = waiting.popleft()
            batch = named[start : start + BATCH]
            try:
                stored[start] = yield from _store_batch(
                    services, scope, policy, batch, files, transfers
                )
            except BaseException:
                waiting.clear()  # the other lanes end with what they have begun
                raise

    try:
        yield from _all([lane() for _ in range(max(1, min(LANES, len(waiting))))])
    finally:
        files.close()
    return [image for start in sorted(stored) for image in stored[start]]


def _store_batch(
    services: Services,
    scope: Scope,
    policy: Policy,
    batch: Sequence[NamedImage],
    files: DocumentFiles,
    transfers: Limiter,
) -> Task:
    fetched: list[FetchedImage] = yield from _all(
        [_limited(transfers, _fetch(services, scope, policy, i, files)) for i in batch]
    )
    limits = policy.limits
    verified: list[VerifiedImage | RejectedImage] = yield from _call(
        services,
        scope,
        policy,
        services.parser,
        "verify_images",
        partial(
            services.sandbox.verify_images,
            [image.path for image in fetched],
            ImageLimits(
                max_bytes=limits.max_image_bytes,
                max_pixels=limits.max_image_pixels,
                media_types=frozenset(limits.allowed_image_types),
            ),
        ),
    )
    uploads = []
    for image, local, checked in zip(batch, fetched, verified, strict=True):
        if isinstance(checked, RejectedImage):
            raise DocumentFailed(Reason(checked.reason), "persist")
        if checked.sha256 != local.sha256:
            raise DocumentFailed(Reason.IMAGE_NOT_AN_IMAGE, "persist", "changed_on_disk")
        upload = _upload(services, scope, policy, image, local.path, checked)
        uploads.append(_limited(transfers, upload))
    stored: list[ManifestImage] = yield from _all(uploads)
    for local in fetched:
        files.remove(files.name_of(local.path))
    return stored


def _limited(transfers: Limiter, task: Task) -> Task:
    """Task: what ``task`` gives, once it has a place. A drain does not end it here: what is under
    way gets its manifest."""
    permit: Permit = yield Acquire(transfers, "image", through_drain=True)
    try:
        return (yield from task)
    finally:
        permit.release()


def _all(tasks: Sequence[Task]) -> Task:
    """Task: the values of ``tasks``, driven at the same time; the first error is raised once all
    have ended."""
    if len(tasks) == 1:
        return [(yield from tasks[0])]
    outcomes = yield Together(tasks)
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error
    return [outcome.value for outcome in outcomes]


def _fetch(
    services: Services,
    scope: Scope,
    policy: Policy,
    image: NamedImage,
    files: DocumentFiles,
) -> Task:
    """Task: the `FetchedImage`. An expired URL is no failure: the job is read again for another."""
    job, remote = image.finished.job, image.remote
    provider = job.provider.provider
    job_id = job.shard.job_id or ""

    def fetch() -> FetchedImage:
        fetched = provider.fetch_image(
            job_id,
            remote,
            files.file(image.name),
            max_bytes=policy.limits.max_image_bytes,
        )
        files.account(image.name, fetched.bytes)
        return fetched

    for refreshed in range(policy.retries.max_attempts_per_call):
        try:
            fetched: FetchedImage = yield from _call(
                services,
                scope,
                policy,
                job.provider.downloads,
                "download",
                fetch,
                handles=(ImageExpired, JobNotFound),
            )
        except (ImageExpired, JobNotFound) as error:
            scope.failed_attempt(error.code, refreshed + 1, job_id=job_id)
            remote = yield from _refreshed(services, scope, policy, image)
            continue
        services.metrics.bytes.labels("downloaded").inc(fetched.bytes)
        return fetched
    raise DocumentFailed(Reason.ATTEMPTS_EXHAUSTED, "persist", "image_expired")


def _refreshed(services: Services, scope: Scope, policy: Policy, image: NamedImage) -> Task:
    """Task: the same `RemoteImage` as the service names it now.

    :raises JobLost: the job is gone, or is said to have failed now.
    """
    job = image.finished.job
    for attempt in range(1, policy.retries.max_attempts_per_call + 1):
        status: JobStatus = yield from _ask(
            services,
            scope,
            policy,
            job,
            "poll",
            partial(job.provider.provider.poll, job.shard.job_id or ""),
        )
        if status.state is JobState.SUCCEEDED:
            break
        if status.state is JobState.FAILED:
            raise JobLost(job, status.failure_code or status.provider_status)
        # A replica that lags behind, or a word that we do not know: the job had succeeded.
        scope.failed_attempt(status.provider_status, attempt, job_id=job.shard.job_id)
        yield from pause(services, scope, job.provider.calls, attempt, policy.retries)
    else:
        raise DocumentFailed(Reason.ATTEMPTS_EXHAUSTED, "persist", status.provider_status)
    images: Sequence[RemoteImage] = status.images
    if not status.images_listed:
        images = yield from _images_of(services, scope, policy, Finished(job, status))
    place = (image.remote.page, image.remote.order)
    for fresh in images:
        if (fresh.page, fresh.order) == place:
            return fresh
    raise DocumentFailed(Reason.PROVIDER_INCOMPLETE, "persist", "image_gone")


def _upload(
    services: Services,
    scope: Scope,
    policy: Policy,
    image: NamedImage,
    path: Path,
    checked: VerifiedImage,
) -> Task:
    record = image.finished.job.keeper.record
    prefix = record.manifest_key.removesuffix("/manifest.json")
    key: str = yield from _call(
        services,
        scope,
        policy,
        services.output,
        "image_write",
        partial(
            services.images.write, prefix, image.name, path, checked.sha256, checked.media_type
        ),
    )
    services.metrics.bytes.labels("stored").inc(checked.bytes)
    segment, page = source_page(record.page_map, image.page)
    return ManifestImage(
        name=image.name,
        page=image.page,
        segment=segment,
        source_page=page,
        key=key,
        sha256=checked.sha256,
        bytes=checked.bytes,
        media_type=checked.media_type,
        width=checked.width,
        height=checked.height,
        is_mask=image.remote.is_mask,
    )


def _call(
    services: Services,
    scope: Scope,
    policy: Policy,
    dependency: Dependency,
    operation: str,
    fn: Callable[[], Any],
    handles: tuple[type[Exception], ...] = (),
) -> Task:
    return call(services, scope, dependency, operation, fn, retries=policy.retries, handles=handles)
