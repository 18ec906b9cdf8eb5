"""The remote jobs of one document: submitted once, polled, resumed by whoever comes after.

`run_job` drives one shard by what its record says, again and again until the service finished it:
the record, not the code path, decides what happens next, so a fresh start, a crash, a rebalance and
a replay are all the same loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from consumers.extraction.calls import attempts_allowed, call, pause
from consumers.extraction.local_document import LocalDocument
from consumers.extraction.record_keeper import RecordChanged, RecordKeeper, next_generation
from consumers.extraction.scope import DocumentFailed, Scope
from consumers.extraction.services import ProviderService, Services
from consumers.extraction.timestamps import parse_rfc3339, rfc3339
from consumers.providers.errors import JobNotFound, SubmitUnknown
from consumers.providers.protocol import JobState, JobStatus, Submission, SubmitOptions
from consumers.runtime.effects import Acquire, SafePoint, Sleep, Task
from consumers.runtime.limiter import Permit
from schemas.identity import idempotency_key
from schemas.job_record import JobPhase, JobShard
from schemas.policy import Policy
from schemas.reasons import Reason

LEASE_CHECK_S = 2.0


@dataclass(slots=True)
class Job:
    """One shard's way through its record."""

    services: Services
    scope: Scope
    policy: Policy
    provider: ProviderService
    keeper: RecordKeeper
    index: int
    local: LocalDocument
    permit: Permit | None = None
    answered: JobStatus | None = None
    """The finished status where a submit was answered synchronously."""

    @property
    def shard(self) -> JobShard:
        return self.keeper.shard(self.index)

    @property
    def key(self) -> str:
        return idempotency_key(self.shard.job_key, self.shard.generation)

    def note(self, event: str, **fields: Any) -> None:
        self.scope.note(event, job_key=self.key, job_id=self.shard.job_id, **fields)


def run_job(job: Job) -> Task:
    """Task: the `JobStatus` of the succeeded job.

    :raises DocumentFailed: the service's verdict, the deadline, no submit left, or the job is gone
        because another worker finished the document (its manifest stands then).
    """
    metrics, name = job.services.metrics, job.provider.provider.name
    in_flight = metrics.jobs_in_flight.labels(name)
    counted = False
    try:
        if job.shard.phase is JobPhase.SUBMITTED:
            metrics.jobs_resumed.labels(name).inc()
            job.note("resumed", stage="submit")
        while True:
            try:
                match job.shard.phase:
                    case JobPhase.SUBMITTING:
                        yield from _submit(job)
                    case JobPhase.SUBMITTED:
                        if not counted:
                            in_flight.inc()
                            counted = True
                        status: JobStatus | None = yield from _await(job)
                        if status is not None:
                            return status
                    case JobPhase.FAILED | JobPhase.TIMED_OUT:
                        raise _verdict(job.shard)
            except RecordChanged:
                job.note("record_changed")
    finally:
        if counted:
            in_flight.dec()
        if job.permit is not None:
            job.permit.release()


# -- submit ------------------------------------------------------------------------------------


def _document_and_slot(job: Job) -> Task:
    """Task: the local document to submit, and ``job.permit``.

    Always in this order: whoever holds a job slot never waits for a place to keep files, because
    those who have such a place may all be waiting for a slot.
    """
    if job.permit is not None and not job.local.here:
        job.permit.release()
        job.permit = None
    document = yield from job.local.part(job.shard.first_page, job.shard.last_page)
    if job.permit is None:
        try:
            job.permit = yield Acquire(job.provider.slots, job.keeper.record.bundle_id)
        except BaseException:
            job.local.discard(document)
            raise
    return document


def _submit(job: Job) -> Task:
    """Leaves the record SUBMITTED with the job's id."""
    if not job.keeper.opened_here(job.index) and (yield from _settle_uncertain(job)):
        return
    document = yield from _document_and_slot(job)
    yield SafePoint()
    options = SubmitOptions(
        soft_masks=job.policy.soft_masks,
        repeat_drawings=job.policy.repeat_drawings,
        extra=tuple(sorted(job.policy.provider_options.items())),
    )
    uncertain = 0
    try:
        with job.scope.stage("submit"):
            while True:
                try:
                    submission: Submission = yield from call(
                        job.services,
                        job.scope,
                        job.provider.calls,
                        "submit",
                        partial(
                            job.provider.provider.submit, document, key=job.key, options=options
                        ),
                        retries=job.policy.retries,
                        handles=(SubmitUnknown,),
                    )
                    break
                except DocumentFailed as refused:
                    if refused.reason is not Reason.PROVIDER_REFUSED:
                        raise
                    yield from _end(job, JobPhase.FAILED, refused.reason, refused.code)
                    return
                except SubmitUnknown as error:
                    uncertain += 1
                    job.scope.failed_attempt(error.code, uncertain, job_key=job.key)
                    if uncertain >= attempts_allowed(job.provider.calls, job.policy.retries):
                        raise DocumentFailed(
                            Reason.SUBMIT_UNCERTAIN, "submit", error.code
                        ) from None
                    yield from pause(
                        job.services, job.scope, job.provider.calls, uncertain, job.policy.retries
                    )
                    if (yield from _settle_uncertain(job)):
                        return
            yield from _accepted(job, submission)
    finally:
        job.local.discard(document)
    job.services.metrics.bytes.labels("submitted").inc(document.bytes)
    if job.keeper.all_submitted:
        job.local.drop()


def _accepted(job: Job, submission: Submission) -> Task:
    shard, name = job.shard, job.provider.provider.name
    kind = "first" if shard.submits <= 1 else ("further" if shard.generation > 1 else "again")
    job.services.metrics.submits.labels(name, kind).inc()
    job.scope.note("submitted", job_key=job.key, job_id=submission.job_id, attempt=shard.submits)
    accepted = {
        "phase": JobPhase.SUBMITTED,
        "job_id": submission.job_id,
        "accepted_at": rfc3339(job.services.clock.time()),
        "last_status": submission.status.provider_status if submission.status else None,
    }
    job.answered = submission.status
    try:
        yield from job.keeper.update(job.index, lambda s: s.model_copy(update=accepted))
    except RecordChanged:
        if job.shard.job_id not in (None, submission.job_id):
            # Two workers submitted and the service made two jobs: the recorded one is used.
            job.answered = None
            job.services.metrics.duplicate_submissions.labels(name).inc()
            job.scope.note("duplicate_submission", job_id=submission.job_id)
        raise


def _settle_uncertain(job: Job) -> Task:
    """Task: True when the record says SUBMITTED now; False when the submit may be made (again).

    A submit was begun and its answer is not known: by this worker, by one that died, or by one
    that is still at it.
    """
    provider = job.provider.provider
    if provider.abilities.idempotent_submit:
        return False  # the same key cannot make a second job
    if job.keeper.record.owner != job.services.worker_id and (yield from _outwait_owner(job)):
        return True
    found: str | None = yield from call(
        job.services,
        job.scope,
        job.provider.calls,
        "find",
        partial(provider.find, job.key),
        retries=job.policy.retries,
    )
    if found is not None:
        job.scope.note("found", job_key=job.key, job_id=found)
        yield from _accepted(job, Submission(found))
        return True
    if job.shard.submits > job.policy.retries.max_resubmits:
        raise DocumentFailed(Reason.SUBMIT_UNCERTAIN, "submit")
    job.services.metrics.duplicate_submissions.labels(provider.name).inc()
    job.note("resubmitting", attempt=job.shard.submits + 1)
    yield from job.keeper.update(
        job.index, lambda s: s.model_copy(update={"submits": s.submits + 1})
    )
    return False


def _outwait_owner(job: Job) -> Task:
    """Task: True when the owner finished its submit while its lease ran."""
    lease = job.policy.retries.submitting_lease_s
    while job.shard.phase is JobPhase.SUBMITTING:
        updated = parse_rfc3339(job.keeper.record.updated_at) or 0.0
        left = updated + lease - job.services.clock.time()
        if left <= 0:
            return False
        with job.scope.timeline.during("retry"):
            yield Sleep(min(left, LEASE_CHECK_S))
        yield from job.keeper.reload()
    return job.shard.phase is JobPhase.SUBMITTED


# -- poll --------------------------------------------------------------------------------------


def _await(job: Job) -> Task:
    """Task: the succeeded status, or None when the record now says something else."""
    with job.scope.stage("poll", cause="provider"):
        return (yield from _poll_until_done(job))


def _poll_until_done(job: Job) -> Task:
    services, scope, policy = job.services, job.scope, job.policy
    name = job.provider.provider.name
    clock, shard = services.clock, job.shard
    assert shard.job_id is not None
    accepted = parse_rfc3339(shard.resumed_at or shard.accepted_at or "") or clock.time()
    pages = shard.last_page - shard.first_page + 1
    schedule = job.provider.schedule
    outages_before = scope.timeline.seconds.get("outage", 0.0)
    polls = missing = 0
    hint: float | None = None
    status, job.answered = job.answered, None
    last_asked = clock.monotonic()

    def patience_used() -> float:
        """Seconds since the acceptance, without those in which nobody could have been asked."""
        outage = scope.timeline.seconds.get("outage", 0.0) - outages_before
        return clock.time() - accepted - outage

    while True:
        if status is None:
            elapsed = patience_used()
            delay = schedule.next_delay(policy.polling, elapsed, polls, hint, pages)
            yield Sleep(delay)
            asked_before, last_asked = last_asked, clock.monotonic()
            polls += 1
            try:
                status = yield from call(
                    services,
                    scope,
                    job.provider.calls,
                    "poll",
                    partial(job.provider.provider.poll, shard.job_id),
                    retries=policy.retries,
                    handles=(JobNotFound,),
                )
            except JobNotFound as error:
                missing += 1
                hint = None
                scope.failed_attempt(error.code, missing, job_id=shard.job_id)
                if missing > policy.retries.not_found_grace:
                    if (yield from job.keeper.find_manifest()) is not None:
                        # Another worker finished it and cleaned up: nothing is to be done again.
                        raise DocumentFailed(Reason.JOB_FORGOTTEN, "poll", error.code) from None
                    yield from another_job(job, Reason.JOB_FORGOTTEN, error.code)
                    return None
                continue
            assert status is not None
        else:
            asked_before = last_asked
        if not status.known:
            services.metrics.provider_unknown_status.labels(name).inc()
        if status.state is JobState.RUNNING:
            missing = 0
            hint, status = status.retry_after, None
            if patience_used() >= policy.polling.deadline_s:
                scope.failed_attempt("deadline", shard.generation, job_id=shard.job_id)
                yield from _end(job, JobPhase.TIMED_OUT, Reason.DEADLINE, "running")
                return None
            continue
        services.metrics.polls_per_job.labels(name).observe(polls)
        if status.state is JobState.FAILED:
            yield from _failed(job, status)
            return None
        _account(job, status, accepted, clock.monotonic() - asked_before, pages)
        scope.note("finished", job_key=job.key, job_id=shard.job_id, attempt=polls)
        return status


def _account(job: Job, status: JobStatus, accepted: float, since_last: float, pages: int) -> None:
    """Splits the wait into the service's time and our lag. Where the service does not say when it
    finished, it is taken to have been half-way between the last two polls."""
    clock, name = job.services.clock, job.provider.provider.name
    now = clock.time()
    finished = parse_rfc3339(status.finished_at) if status.finished_at else None
    lag = min(max(now - finished, 0.0), since_last) if finished is not None else since_last / 2
    run = max(now - lag - accepted, 0.0)
    job.scope.timeline.enter("provider")
    job.scope.timeline.move(lag, "provider", "poll_lag")
    job.services.metrics.poll_lag.labels(name).observe(lag)
    job.services.metrics.provider_run.labels(name).observe(run)
    job.provider.schedule.learn(run, pages)


def _failed(job: Job, status: JobStatus) -> Task:
    code = status.failure_code or status.provider_status
    job.scope.failed_attempt(code, job.shard.generation, job_id=job.shard.job_id)
    if status.failure_kind == "document":
        yield from _end(job, JobPhase.FAILED, Reason.PROVIDER_FAILED, code)
    else:
        yield from another_job(job, Reason.PROVIDER_FAILED, code)


def another_job(job: Job, reason: Reason, code: str) -> Task:
    """The job is lost; another takes its place while the policy has one left. The record says
    which: it is SUBMITTING or FAILED then.

    :raises RecordChanged: another worker decided meanwhile.
    """
    if job.shard.generation > job.policy.retries.max_resubmits:
        yield from _end(job, JobPhase.FAILED, reason, code)
        return
    job.note("another_job", code=code, attempt=job.shard.generation + 1)
    job.services.metrics.retries.labels(job.provider.provider.name, "another_job").inc()
    yield from job.keeper.update(job.index, next_generation)


def _end(job: Job, phase: JobPhase, reason: Reason, code: str | None) -> Task:
    """Writes the verdict into the record, from where this and any later worker reads it."""
    verdict = {"phase": phase, "failure": reason.value, "last_status": code}
    yield from job.keeper.update(job.index, lambda s: s.model_copy(update=verdict))


def _verdict(shard: JobShard) -> DocumentFailed:
    reason = Reason(shard.failure) if shard.failure else Reason.PROVIDER_FAILED
    stage = "submit" if shard.job_id is None else "poll"
    return DocumentFailed(reason, stage, shard.last_status)
