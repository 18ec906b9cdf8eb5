"""The remote extraction service, as seen through an adapter: jobs, and every way to fail.

Errors are those that the real adapters raise (`consumers.providers.failures`). A document is known
by its name; the service's own record of jobs is what the bill would be made from.
"""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass, field
from pathlib import Path

from consumers.providers.errors import (
    CallFailed,
    DocumentRefused,
    ImageExpired,
    JobNotFound,
    NotAuthorized,
    ResultGone,
    ServiceUnavailable,
    SubmitUnknown,
    Throttled,
    Truncated,
)
from consumers.providers.protocol import (
    Abilities,
    Document,
    FetchedImage,
    JobState,
    JobStatus,
    RemoteImage,
    Submission,
    SubmitOptions,
)
from schemas.problems import Problem, ProblemCode
from tests.simulation.agenda import EPOCH, Agenda
from tests.simulation.documents import Read, Trait, image_bytes
from tests.simulation.faults import RETRY_AFTERS, Faults

PROVIDER = "remote"


@dataclass(frozen=True, slots=True)
class ServiceKind:
    """What sort of service the seed has."""

    idempotent: bool = True
    finds: bool = True
    """A service without idempotency can tell which job a key made."""
    forgets: bool = True
    lists_images: bool = True
    tells_end: bool = True
    reports_pages: bool = True
    images_need_document: bool = False
    leaves_out: bool = False
    """The last image of each page cannot be given, and that is told."""
    synchronous: bool = False
    """The submit's answer is the result; a job cannot be asked for."""
    results_kept_seconds: float | None = None
    url_seconds: float = 30.0
    run_seconds: tuple[float, float] = (0.5, 20.0)


@dataclass
class RemoteJob:
    job_id: str
    key: str
    document: Read
    sha256: str
    made_at: float
    done_at: float
    verdict: JobState
    failure_kind: str = "document"
    deleted_by_us: bool = False
    forgotten: bool = False
    not_found_answers: int = 0

    @property
    def victim(self) -> str:
        return victim_of(self.key)


def victim_of(key: str) -> str:
    """The job key without its generation: what faults are counted under."""
    return key.split(".", maxsplit=1)[0]


@dataclass
class Service:
    """Shared by all workers."""

    agenda: Agenda
    faults: Faults
    rng: random.Random
    kind: ServiceKind
    jobs: dict[str, RemoteJob] = field(default_factory=dict)
    retry_afters: tuple[float | None, ...] = RETRY_AFTERS
    without_credit_until: float = 0.0
    """Until then jobs are accepted and fail for want of credit."""

    def jobs_of(self, job_key: str) -> list[RemoteJob]:
        """Every job ever made for this shard, over all generations."""
        return [job for job in self.jobs.values() if job.victim == job_key]

    # -- requests ------------------------------------------------------------------------------

    def submit(self, document: Document, key: str) -> Submission:
        data = document.path.read_bytes()
        victim = victim_of(key)
        self._trouble("submit", victim)
        if self.faults.hits("submit.request_lost", victim):
            raise SubmitUnknown("timed_out", operation="submit")
        if self.faults.hits("submit.http_500", victim):
            raise SubmitUnknown("http_500", status=500, operation="submit")
        read = Read(data)
        if read.trait is Trait.REFUSED:
            raise DocumentRefused("not_supported", status=422, operation="submit")
        sha256 = hashlib.sha256(data).hexdigest()
        job = next((j for j in self.jobs.values() if j.key == key), None)
        if job is None or not self.kind.idempotent or job.forgotten:
            job = self._make(read, key, sha256)
        elif job.sha256 != sha256:
            raise DocumentRefused("idempotency_mismatch", status=409, operation="submit")
        if self.faults.hits("submit.answer_lost", victim):
            raise SubmitUnknown("connection_lost", operation="submit")
        if self.kind.synchronous:
            return Submission(job.job_id, self._ended(job))
        return Submission(job.job_id)

    def _make(self, read: Read, key: str, sha256: str) -> RemoteJob:
        now, (least, most) = self.agenda.now, self.kind.run_seconds
        earlier = len(self.jobs_of(victim_of(key)))
        job = RemoteJob(
            f"job-{len(self.jobs) + 1}",
            key,
            read,
            sha256,
            now,
            now + self.rng.uniform(least, most),
            JobState.SUCCEEDED,
        )
        match read.trait:
            case Trait.FAILS:
                job.verdict = JobState.FAILED
            case Trait.FAILS_EVERY_JOB:
                job.verdict, job.failure_kind = JobState.FAILED, "attempt"
            case Trait.FAILS_ONCE if not earlier:
                job.verdict, job.failure_kind = JobState.FAILED, "attempt"
            case Trait.ENDLESS:
                job.done_at = float("inf")
            case Trait.SLOW:
                job.done_at = now + 1000.0
        if now < self.without_credit_until:
            job.verdict, job.failure_kind = JobState.FAILED, "systemic"
        self.jobs[job.job_id] = job
        return job

    def find(self, key: str) -> str | None:
        self._trouble("find", victim_of(key))
        if not self.kind.finds:
            return None
        return next((j.job_id for j in self.jobs.values() if j.key == key), None)

    def poll(self, job_id: str) -> JobStatus:
        if self.kind.synchronous:
            raise ResultGone("synchronous_result_gone", operation="poll")
        job = self._job(job_id, "poll")
        if self.faults.hits("poll.failed", job.victim):
            raise CallFailed("http_500", status=500, operation="poll")
        if self.faults.hits("poll.unknown_status", job.victim):
            return JobStatus(JobState.RUNNING, "percolating", known=False)
        if self.agenda.now < job.done_at:
            return JobStatus(JobState.RUNNING, "running", retry_after=self.rng.choice((None, 1.0)))
        return self._ended(job)

    def _ended(self, job: RemoteJob) -> JobStatus:
        if job.verdict is JobState.FAILED:
            return JobStatus(
                JobState.FAILED,
                "failed",
                failure_code="engine_failed",
                failure_kind=job.failure_kind,
            )
        pages = len(job.document.pages)
        if job.document.trait is Trait.SHORT:
            pages += 1
        if job.document.trait is Trait.SEEN_DIFFERENTLY:
            pages -= 1
        listed = self.kind.lists_images
        return JobStatus(
            JobState.SUCCEEDED,
            "completed",
            images=self._images(job) if listed else (),
            images_listed=listed,
            pages=pages if self.kind.reports_pages else None,
            finished_at=_rfc3339(job.done_at) if self.kind.tells_end else None,
            problems=self._problems(job) if self.kind.leaves_out else (),
        )

    def _problems(self, job: RemoteJob) -> tuple[Problem, ...]:
        """In another order each time."""
        problems = [
            Problem(code=ProblemCode.UNDECODABLE, page=page, index=len(names) + 1)
            for page, names in enumerate(job.document.pages, start=1)
        ]
        self.rng.shuffle(problems)
        return tuple(problems)

    def images(self, job_id: str) -> tuple[RemoteImage, ...]:
        job = self._job(job_id, "images")
        if self.faults.hits("images.failed", job.victim):
            raise CallFailed("http_500", status=500, operation="images")
        return self._images(job)

    def _images(self, job: RemoteJob) -> tuple[RemoteImage, ...]:
        """In another order each time; every URL says until when it works. Every second image of a
        page is the mask of the one before."""
        expires = self.agenda.now + self.kind.url_seconds
        images = [
            RemoteImage(
                page,
                order,
                url=f"https://images.test/{image}?expires={expires}",
                is_mask=order % 2 == 1,
            )
            for page, names in enumerate(job.document.pages, start=1)
            for order, image in enumerate(names)
        ]
        self.rng.shuffle(images)
        return tuple(images)

    def fetch_image(self, job_id: str, image: RemoteImage, destination: Path) -> FetchedImage:
        job = self.jobs[job_id]
        if self.faults.down("service"):
            raise ServiceUnavailable("unreachable", operation="fetch_image")
        assert image.url is not None
        name, expires = image.url.removeprefix("https://images.test/").split("?expires=")
        expired = self.agenda.now > float(expires) or job.forgotten or job.deleted_by_us
        if expired or self.faults.hits("download.expired", job.victim):
            self.faults.counted["download.refused", job.victim] += 1
            raise ImageExpired("http_403", status=403, operation="fetch_image")
        if self.faults.hits("download.truncated", job.victim):
            raise Truncated("length_mismatch", operation="fetch_image")
        data = image_bytes(name, job.document.trait)
        destination.unlink(missing_ok=True)
        destination.write_bytes(data)
        return FetchedImage(destination, len(data), hashlib.sha256(data).hexdigest(), "image/png")

    def forget(self, job_id: str) -> None:
        self._trouble("forget", "")
        if self.faults.hits("forget.failed"):
            raise CallFailed("http_500", status=500, operation="forget")
        self.jobs[job_id].deleted_by_us = True

    # -- trouble -------------------------------------------------------------------------------

    def _job(self, job_id: str, operation: str) -> RemoteJob:
        job = self.jobs[job_id]
        self._trouble(operation, job.victim)
        if not job.forgotten and self.faults.hits("service.forgets", job.victim):
            job.forgotten = True
        kept = self.kind.results_kept_seconds
        if kept is not None and self.agenda.now > job.done_at + kept:
            job.forgotten = True
        gone = job.forgotten or job.deleted_by_us
        if gone or self.faults.hits("poll.not_found", job.victim):
            job.not_found_answers += 1
            raise JobNotFound("http_404", status=404, operation=operation)
        return job

    def _trouble(self, operation: str, victim: str) -> None:
        faults = self.faults
        if faults.down("service") or faults.hits("service.unreachable", victim):
            raise ServiceUnavailable("unreachable", operation=operation)
        if faults.down("unauthorized") or faults.hits("service.unauthorized", victim):
            raise NotAuthorized("http_401", status=401, operation=operation)
        if faults.hits("service.throttled", victim):
            raise Throttled(
                "http_429",
                status=429,
                retry_after=self.rng.choice(self.retry_afters),
                operation=operation,
            )
        if faults.hits("service.bad_gateway", victim):
            if operation == "submit":
                raise SubmitUnknown("http_502", status=502, operation=operation)
            raise CallFailed("http_502", status=502, operation=operation)


def _rfc3339(at: float) -> str:
    from consumers.extraction.timestamps import rfc3339

    return rfc3339(EPOCH + at)


class SimProvider:
    """One worker's adapter to the shared service."""

    def __init__(self, service: Service) -> None:
        kind = service.kind
        self.name = PROVIDER
        self.abilities = Abilities(
            idempotent_submit=kind.idempotent,
            forgets=kind.forgets,
            reports_pages=kind.reports_pages,
            images_need_document=kind.images_need_document,
            results_kept_seconds=kind.results_kept_seconds,
        )
        self._service = service

    def submit(self, document: Document, *, key: str, options: SubmitOptions) -> Submission:
        return self._service.submit(document, key)

    def find(self, key: str) -> str | None:
        return self._service.find(key)

    def poll(self, job_id: str) -> JobStatus:
        return self._service.poll(job_id)

    def images(self, job_id: str, document: Document | None) -> tuple[RemoteImage, ...]:
        if self.abilities.images_need_document:
            assert document is not None
            assert document.path.exists()
        return self._service.images(job_id)

    def fetch_image(
        self, job_id: str, image: RemoteImage, destination: Path, *, max_bytes: int
    ) -> FetchedImage:
        return self._service.fetch_image(job_id, image, destination)

    def forget(self, job_id: str) -> None:
        self._service.forget(job_id)

    def close(self) -> None:
        pass
