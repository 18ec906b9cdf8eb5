"""What is decided about the images of finished jobs, and the manifest that tells of them: pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from consumers.extraction.jobs import Job
from consumers.extraction.scope import DocumentFailed
from consumers.extraction.timestamps import parse_rfc3339, rfc3339
from consumers.providers.protocol import PAGE_NOT_TOLD, Abilities, JobStatus, RemoteImage
from schemas.identity import idempotency_key, image_name
from schemas.job_record import JobRecord, JobShard
from schemas.manifest import Manifest, ManifestImage, ManifestJob
from schemas.policy import Policy
from schemas.problems import MAX_PROBLEMS, Problem, ProblemCode
from schemas.reasons import Reason


@dataclass(frozen=True, slots=True)
class Finished:
    """A succeeded job: its status may be replaced by a fresh one when its image URLs expire."""

    job: Job
    status: JobStatus


@dataclass(frozen=True, slots=True)
class NamedImage:
    """An image of the document with the name that we give it; ``page`` is of the document."""

    name: str
    page: int
    finished: Finished
    remote: RemoteImage


def check_pages(status: JobStatus, pages: int, abilities: Abilities) -> None:
    """A service may leave pages out without a word, so where it tells their number it must.

    :raises DocumentFailed: the job did not cover all ``pages``, or does not say that it did.
    """
    if status.pages is None and abilities.reports_pages:
        raise DocumentFailed(Reason.PROVIDER_INCOMPLETE, "persist", "page_count_not_told")
    if status.pages not in (None, pages):
        raise DocumentFailed(Reason.PROVIDER_INCOMPLETE, "persist", "page_count")


def page_of(image: RemoteImage, pages: int) -> int:
    """The page (1-based) in the submitted document of ``pages`` pages.

    :raises DocumentFailed: there is no such page, or the service did not say which it is and there
        is more than one.
    """
    if image.page == PAGE_NOT_TOLD and pages == 1:
        return 1
    if not 1 <= image.page <= pages:
        raise DocumentFailed(Reason.PROVIDER_INCOMPLETE, "persist", "page_outside")
    return image.page


def name_images(listed: Sequence[tuple[int, int, Finished, RemoteImage]]) -> list[NamedImage]:
    """Our own names in a stable order, whatever order or names the service gave."""
    named = []
    ordered = sorted(listed, key=lambda entry: entry[:2])
    for page, entries in groupby(ordered, key=lambda entry: entry[0]):
        for index, (_, _, item, image) in enumerate(entries, start=1):
            named.append(NamedImage(image_name(page, index), page, item, image))
    return named


def problems_of(record: JobRecord, finished: Sequence[Finished]) -> tuple[Problem, ...]:
    """What the service could not give, by page of the document: a bounded number, and how many more
    there were. Whatever order it was told in, so that every worker writes the same."""
    found: list[Problem] = []
    more = 0
    for item, shard in zip(finished, record.shards, strict=True):
        for problem in item.status.problems:
            if problem.code is ProblemCode.MORE:
                more += problem.count or 1
            else:
                found.append(_placed(problem, shard))
    found.sort(key=_by_place)
    more += max(0, len(found) - MAX_PROBLEMS)
    listed = tuple(found[:MAX_PROBLEMS])
    return (*listed, Problem(code=ProblemCode.MORE, count=more)) if more else listed


def _by_place(problem: Problem) -> tuple[float, int, str]:
    """Those of no page last."""
    page = math.inf if problem.page is None else problem.page
    return page, -1 if problem.index is None else problem.index, problem.code.value


def _placed(problem: Problem, shard: JobShard) -> Problem:
    """With its page in the document. A page that the job does not have is none: what is not told
    must not point at a page of another shard."""
    pages = shard.last_page - shard.first_page + 1
    page = 1 if problem.page is None and pages == 1 else problem.page
    if page is None or page > pages:
        return problem.model_copy(update={"page": None})
    return problem.model_copy(update={"page": page + shard.first_page - 1})


def check_complete(policy: Policy, problems: Sequence[Problem]) -> None:
    """:raises DocumentFailed: something is missing, and the policy has no use for the rest."""
    if problems and policy.incomplete == "fail":
        raise DocumentFailed(Reason.PROVIDER_INCOMPLETE, "persist", problems[0].code.value)


def build_manifest(
    record: JobRecord, finished: Sequence[Finished], images: Sequence[ManifestImage]
) -> Manifest:
    """Pure; every varying value comes from the record or from the service's own record."""
    jobs, ends = [], []
    for item, shard in zip(finished, record.shards, strict=True):
        assert shard.job_id is not None
        assert shard.accepted_at is not None
        ends.append(_moment(item.status.finished_at) or shard.accepted_at)
        jobs.append(
            ManifestJob(
                job_id=shard.job_id,
                idempotency_key=idempotency_key(shard.job_key, shard.generation),
                first_page=shard.first_page,
                last_page=shard.last_page,
                submits=shard.submits,
                accepted_at=shard.accepted_at,
            )
        )
    return Manifest(
        extraction_id=record.extraction_id,
        bundle_id=record.bundle_id,
        parent_bundle_id=record.parent_bundle_id,
        operation=record.operation,
        document_id=record.document_id,
        segments=record.segments,
        submitted_sha256=record.submitted_sha256,
        submitted_bytes=record.submitted_bytes,
        pages=record.pages,
        policy_version=record.policy_version,
        provider=record.provider,
        jobs=tuple(jobs),
        submits=sum(job.submits for job in jobs),
        extracted_at=max(ends),
        images=tuple(images),
        problems=problems_of(record, finished),
        parser=record.parser,
    )


def _moment(text: str | None) -> str | None:
    seconds = parse_rfc3339(text) if text else None
    return None if seconds is None else rfc3339(seconds)
