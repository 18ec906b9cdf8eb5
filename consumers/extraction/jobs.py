"""The remote jobs of one document: submitted once, polled, resumed by whoever comes after.

`run_job` drives one shard by what its record says, again and again until the service finished it:
the record, not the code path, decides what happens next, so a fresh start, a crash, a rebalance and
a replay are all the same loop.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from consumers.extraction.calls import attempts_allowed, call, open_breaker, pause
from consumers.extraction.live import LiveJob
from consumers.extraction.local_document import LocalDocument
from consumers.extraction.polling import before_it_is_gone
from consumers.extraction.record_keeper import RecordChanged, RecordKeeper
from consumers.extraction.scope import DocumentFailed, Scope
from consumers.extraction.services import ProviderService, Services
from consumers.extraction.timestamps import parse_rfc3339, rfc3339
from consumers.metrics import exemplar
from consumers.providers.errors import JobNotFound, ResultGone, SubmitUnknown
from consumers.providers.protocol import JobState, JobStatus, Submission, SubmitOptions
from consumers.runtime.effects import Acquire, SafePoint, Sleep, Task
from consumers.runtime.limiter import Permit
from schemas.identity import idempotency_key
from schemas.job_record import JobPhase, JobShard
from schemas.policy import Policy
from schemas.reasons import Reason

OPEN_PHASES = (JobPhase.PLANNED, JobPhase.SUBMITTING)
"""There is no job yet, as far as the record knows."""
LEASE_CHECK_S = 2.0
RECORD_FRESH_S = 5.0
"""A record seen longer ago than this is read again before a submit: the wait for a slot has no
bound, and another worker may have finished the document and have had the key forgotten."""


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
    finished_id: str | None = None
    """The job whose end `run_job` gave: the record may name another one, or none, by now."""
    begun: tuple[int, int] | None = None
    """(generation, submits) as written when this job last began a submit: while the record still
    says so, nobody else can be at it."""
    live: LiveJob = field(init=False)

    def __post_init__(self) -> None:
        self.live = LiveJob(self.provider.provider.name)

    @property
    def shard(self) -> JobShard:
        return self.keeper.shard(self.index)

    @property
    def key(self) -> str:
        return idempotency_key(self.shard.job_key, self.shard.generation)

    def check_finished(self) -> None:
        """:raises RecordChanged: another worker gave the finished job up meanwhile, taking it for
        forgotten: what is true now is found by going by the record again."""
        shard = self.shard
        if shard.phase is not JobPhase.SUBMITTED or shard.job_id != self.finished_id:
            raise RecordChanged

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
    job.scope.jobs[job.index] = job.live
    try:
        if job.shard.phase is JobPhase.SUBMITTED:
            metrics.jobs_resumed.labels(name).inc()
            job.note("resumed", stage="submit")
        while True:
            try:
                match job.shard.phase:
                    case JobPhase.PLANNED | JobPhase.SUBMITTING:
                        yield from _submit(job)
                    case JobPhase.SUBMITTED:
                        if not counted:
                            in_flight.inc()
                            counted = True
                        status: JobStatus | None = yield from _await(job)
                        if status is not None:
                            job.finished_id = job.shard.job_id
                            return status
                    case JobPhase.FAILED | JobPhase.TIMED_OUT:
                        raise _verdict(job.shard)
            except RecordChanged:
                job.note("record_changed")
    finally:
        del job.scope.jobs[job.index]
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
    job.live.enters("fetching", job.services.clock.monotonic())
    if job.permit is not None and not job.local.here:
        job.permit.release()
        job.permit = None
    document = yield from job.local.part(job.shard.first_page, job.shard.last_page)
    if job.permit is None:
        job.live.enters("waiting_for_slot", job.services.clock.monotonic())
        try:
            job.permit = yield Acquire(job.provider.slots, job.keeper.record.bundle_id)
        except BaseException:
            job.local.discard(document)
            raise
    job.live.enters("submitting", job.services.clock.monotonic())
    return document


def _submit(job: Job) -> Task:
    """Leaves the record SUBMITTED with the job's id."""
    document = yield from _document_and_slot(job)
    options = SubmitOptions(
        soft_masks=job.policy.soft_masks,
        repeat_drawings=job.policy.repeat_drawings,
        extra=tuple(sorted(job.policy.provider_options.items())),
        traceparent=job.scope.traceparent,
    )
    uncertain = 0
    try:
        yield SafePoint()
        if not (yield from _begin(job)):
            return
        with job.scope.stage("submit"):
            while True:
                shard = job.shard
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
                    yield from _end(job, shard, JobPhase.FAILED, refused.reason, refused.code)
                    return
                except SubmitUnknown as error:
                    uncertain += 1
                    job.scope.failed_attempt(error.code, uncertain, job_key=job.key)
                    if uncertain >= attempts_allowed(job.provider.calls, job.policy.retries):
                        raise DocumentFailed(
                            Reason.SUBMIT_UNCERTAIN, "submit", error.code
                        ) from None
                    yield from pause(
                        job.services,
                        job.scope,
                        job.provider.calls,
                        uncertain,
                        job.policy.retries,
                        reason="ambiguous",
                    )
                    if not (yield from _begin(job)):
                        return
            yield from _accepted(job, shard, submission)
    finally:
        job.local.discard(document)
    job.services.metrics.bytes.labels("submitted").inc(document.bytes)
    if job.keeper.all_submitted:
        job.local.drop()


def _begin(job: Job) -> Task:
    """Task: True when a submit may be made now; False when the record says something else by now.

    Where a second submit would make a second job, the record is made to say that one begins now;
    not earlier, because the wait for a slot has no bound and others take a record that stays
    SUBMITTING for that of a dead worker.

    :raises RecordChanged: another worker was quicker.
    """
    keeper = job.keeper
    if job.provider.provider.abilities.idempotent_submit:
        before = job.shard
        if keeper.age_s > RECORD_FRESH_S:
            yield from keeper.reload()
        now = job.shard
        return now.phase in OPEN_PHASES and now.generation == before.generation
    shard = job.shard
    if shard.phase not in OPEN_PHASES:
        return False  # read again for another shard while this one waited for its slot
    if shard.phase is JobPhase.SUBMITTING:
        settled: JobShard | None = yield from _settle_uncertain(job)
        if settled is None:
            return False
        shard = settled
    begun: JobShard = yield from keeper.update(
        job.index,
        shard,
        lambda s: s.model_copy(update={"phase": JobPhase.SUBMITTING, "submits": s.submits + 1}),
    )
    job.begun = (begun.generation, begun.submits)
    return True


def _accepted(job: Job, shard: JobShard, submission: Submission) -> Task:
    """``shard`` is what was submitted: the record may have moved on meanwhile."""
    name = job.provider.provider.name
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
    seen = shard
    while True:
        try:
            yield from job.keeper.update(job.index, seen, lambda s: s.model_copy(update=accepted))
            return
        except RecordChanged:
            seen = job.shard
            if seen.phase in OPEN_PHASES and seen.generation == shard.generation:
                continue  # nobody else has a job yet: this one is paid for, and counts
            job.answered = None
            if seen.job_id != submission.job_id:
                # Two workers submitted and the service made two jobs: the recorded one is used.
                job.services.metrics.duplicate_submissions.labels(name).inc()
                job.scope.note("duplicate_submission", job_id=submission.job_id)
            raise


def _settle_uncertain(job: Job) -> Task:
    """Task: the `JobShard` that may be submitted again, or None when the record says something else
    than SUBMITTING now.

    A submit was begun and its answer is not known: by this task, by a worker that died, or by one
    that is still at it.
    """
    provider = job.provider.provider
    ours = job.begun == (job.shard.generation, job.shard.submits)
    if not ours and (yield from _outwait_owner(job)):
        return None
    shard = job.shard
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
        yield from _accepted(job, shard, Submission(found))
        return None
    # A replay allows one more: whoever asked for it accepts what it may cost.
    if shard.submits > job.policy.retries.max_resubmits + job.keeper.record.replays:
        raise DocumentFailed(Reason.SUBMIT_UNCERTAIN, "submit")
    job.services.metrics.duplicate_submissions.labels(provider.name).inc()
    job.note("resubmitting", attempt=shard.submits + 1)
    return shard


def _outwait_owner(job: Job) -> Task:
    """Task: True when the owner's submit came to an end while its lease ran."""
    lease = job.policy.retries.submitting_lease_s
    while job.shard.phase is JobPhase.SUBMITTING:
        updated = parse_rfc3339(job.keeper.record.updated_at) or 0.0
        left = updated + lease - job.services.clock.time()
        if left <= 0:
            return False
        with job.scope.timeline.during("retry"):
            yield Sleep(min(left, LEASE_CHECK_S))
        yield from job.keeper.reload()
    return True


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

    job.live.enters("running", clock.monotonic())
    while True:
        if status is None:
            elapsed = patience_used()
            delay = schedule.next_delay(policy.polling, elapsed, polls, hint, pages)
            delay = before_it_is_gone(delay, job.provider.provider.abilities.results_kept_seconds)
            due = clock.monotonic() + delay
            job.live.polls, job.live.next_poll_at = polls, due
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
                again = isinstance(error, ResultGone)
                if again or missing > policy.retries.not_found_grace:
                    if (yield from job.keeper.find_manifest()) is not None:
                        # Another worker finished it and cleaned up: nothing is to be done again.
                        raise DocumentFailed(Reason.JOB_FORGOTTEN, "poll", error.code) from None
                    if again:
                        yield from submit_again(job, shard, error.code)
                    else:
                        yield from another_job(job, shard, Reason.JOB_FORGOTTEN, error.code)
                    return None
                continue
            assert status is not None
            schedule.asked(max(clock.monotonic() - due, 0.0))
        else:
            asked_before = last_asked
        if not status.known:
            services.metrics.provider_unknown_status.labels(name).inc()
        if status.state is JobState.RUNNING:
            missing = 0
            hint, status = status.retry_after, None
            if patience_used() >= policy.polling.deadline_s:
                scope.failed_attempt("deadline", shard.generation, job_id=shard.job_id)
                yield from _end(job, shard, JobPhase.TIMED_OUT, Reason.DEADLINE, "running")
                return None
            continue
        services.metrics.polls_per_job.labels(name).observe(polls)
        if status.state is JobState.FAILED:
            yield from _failed(job, shard, status)
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
    example = exemplar(job.scope.extraction_id)
    job.services.metrics.poll_lag.labels(name).observe(lag, example)
    job.services.metrics.provider_run.labels(name).observe(run, example)
    job.provider.schedule.learn(run, pages)


def _failed(job: Job, shard: JobShard, status: JobStatus) -> Task:
    code = status.failure_code or status.provider_status
    job.scope.failed_attempt(code, shard.generation, job_id=shard.job_id)
    match status.failure_kind:
        case "document":
            yield from _end(job, shard, JobPhase.FAILED, Reason.PROVIDER_FAILED, code)
        case "systemic":
            # As if the submit had been refused: no document ends for it, however often it happens.
            calls, retries = job.provider.calls, job.policy.retries
            open_breaker(job.services, job.scope, calls, code)
            yield from pause(
                job.services, job.scope, calls, shard.generation, retries, reason="systemic"
            )
            yield from _next_job(job, shard, code)
        case _:
            yield from another_job(job, shard, Reason.PROVIDER_FAILED, code)


def submit_again(job: Job, shard: JobShard, code: str) -> Task:
    """The job's result was in the submit's answer and is not here any more: the same key brings it
    back, where another would be paid for.

    :raises RecordChanged: another worker decided meanwhile.
    """
    job.note("submitting_again", code=code)
    job.services.metrics.retries.labels(job.provider.provider.name, "not_found").inc()
    open_again = {"phase": JobPhase.SUBMITTING, "job_id": None, "accepted_at": None}
    yield from job.keeper.update(job.index, shard, lambda s: s.model_copy(update=open_again))


def another_job(job: Job, shard: JobShard, reason: Reason, code: str) -> Task:
    """The job is lost; another takes its place while the policy has one left. The record says
    which: it is SUBMITTING or FAILED then.

    :raises RecordChanged: another worker decided meanwhile.
    """
    if shard.generation > job.policy.retries.max_resubmits:
        yield from _end(job, shard, JobPhase.FAILED, reason, code)
        return
    yield from _next_job(job, shard, code)


def _next_job(job: Job, shard: JobShard, code: str) -> Task:
    job.note("another_job", code=code, attempt=shard.generation + 1)
    job.services.metrics.retries.labels(job.provider.provider.name, "another_job").inc()
    yield from job.keeper.update(job.index, shard, job.keeper.next_generation)


def _end(job: Job, shard: JobShard, phase: JobPhase, reason: Reason, code: str | None) -> Task:
    """Writes the verdict into the record, from where this and any later worker reads it."""
    verdict = {"phase": phase, "failure": reason.value, "last_status": code}
    yield from job.keeper.update(job.index, shard, lambda s: s.model_copy(update=verdict))


def _verdict(shard: JobShard) -> DocumentFailed:
    reason = Reason(shard.failure) if shard.failure else Reason.PROVIDER_FAILED
    stage = "submit" if shard.job_id is None else "poll"
    return DocumentFailed(reason, stage, shard.last_status)
