"""One event: its documents side by side, each to its result or dead letter, then the bundle's
result. When this task returns, the event's offset may be committed, and not before."""

from __future__ import annotations

import logging
import traceback

from consumers.extraction.document import process_document
from consumers.extraction.origin import Origin
from consumers.extraction.publishing import publish_bundle_result, publish_dead_letter
from consumers.extraction.scope import DocumentFailed, Scope
from consumers.extraction.services import Services
from consumers.metrics import exemplar
from consumers.runtime.effects import Acquire, Sleep, Task, Together
from schemas.cloudevents import EventRejected, ReceivedEvent, parse_event
from schemas.events import Document
from schemas.policy import Policy, Retries
from schemas.reasons import FROM_THE_SERVICE, RETRIABLE_AFTER_STORM, Reason
from schemas.results import DocumentOutcome

log = logging.getLogger("bundles")

STORM_CHECK_S = 1.0


def process_event(services: Services, origin: Origin) -> Task:
    """Task: None, once every document of the event is terminal and said so on Kafka."""
    services.metrics.events_received.inc()
    services.storm.taken(services.clock.monotonic())
    received = None
    try:
        received = parse_event(origin.value, origin.headers)
        policy = _check(services, received)
    except EventRejected as rejected:
        yield from _reject(services, origin, received, rejected)
        return
    except Exception as error:
        # Whatever it was, the next start must not stumble over the same record again.
        _log_frames(error)
        yield from _reject(services, origin, received, EventRejected(Reason.INTERNAL_ERROR))
        return
    if received.replays:
        services.metrics.replays.inc()
    if policy.ordered_by_key:
        permit = yield Acquire(services.key_order.limiter(origin.key), "in order")
        try:
            yield from _process(services, origin, received, policy)
        finally:
            permit.release()
    else:
        yield from _process(services, origin, received, policy)


def _process(services: Services, origin: Origin, received: ReceivedEvent, policy: Policy) -> Task:
    event = received.event
    tasks = [_document(services, origin, received, policy, d) for d in event.documents]
    outcomes: list[DocumentOutcome]
    if len(tasks) == 1:
        outcomes = [(yield from tasks[0])]
    else:
        ended = yield Together(tasks)
        for end in ended:
            if end.error is not None:
                raise end.error
        outcomes = [end.value for end in ended]
    scope = _scope(services, origin, received, None)
    yield from publish_bundle_result(services, scope, event, policy.version, outcomes)
    failed = any(outcome.status == "dead_lettered" for outcome in outcomes)
    services.metrics.events_finished.labels("dead_lettered" if failed else "extracted").inc()


def _log_frames(error: Exception) -> None:
    """The frames go to the log, never the message: it may quote content."""
    frames = "".join(traceback.format_tb(error.__traceback__))
    log.error("unexpected %s\n%s", type(error).__name__, frames)


def _check(services: Services, received: ReceivedEvent) -> Policy:
    """:raises EventRejected: the event breaks a rule of its policy, or has none."""
    event = received.event
    policy = services.policies.get(event.policy)
    if policy is None:
        raise EventRejected(Reason.POLICY_UNKNOWN)
    limits = policy.limits
    if len(event.documents) > limits.max_documents_per_event or any(
        len(d.segments) > limits.max_segments_per_document for d in event.documents
    ):
        raise EventRejected(Reason.EVENT_TOO_LARGE)
    if received.replays > policy.retries.max_replays:
        raise EventRejected(Reason.REPLAY_LOOP)
    return policy


def _reject(
    services: Services, origin: Origin, received: ReceivedEvent | None, rejected: EventRejected
) -> Task:
    """``received``: None where the event could not even be read."""
    scope = _scope(services, origin, received, None)
    failure = DocumentFailed(rejected.reason, "accept")
    with scope.stage("accept"):
        scope.note("rejected", code=rejected.reason.value)
        yield from publish_dead_letter(services, scope, failure, 0, Retries())
    services.metrics.events_finished.labels("rejected").inc()


def _scope(
    services: Services, origin: Origin, received: ReceivedEvent | None, document: Document | None
) -> Scope:
    return Scope(
        clock=services.clock,
        metrics=services.metrics,
        journal=services.journal,
        origin=origin,
        bundle_id=received.event.bundle_id if received else None,
        document_id=document.document_id if document else None,
        traceparent=received.traceparent if received else None,
    )


def _document(
    services: Services,
    origin: Origin,
    received: ReceivedEvent,
    policy: Policy,
    document: Document,
) -> Task:
    """Task: the `DocumentOutcome`; whatever happens to a document ends here as one."""
    metrics = services.metrics
    scope = _scope(services, origin, received, document)
    metrics.documents_in_progress.inc()
    services.live.began(scope)
    metrics.queue_wait.observe(scope.timeline.seconds["queue"])
    revive = held = False
    try:
        while True:
            try:
                outcome: DocumentOutcome = yield from process_document(
                    services,
                    scope,
                    policy,
                    received.event,
                    document,
                    replays=received.replays,
                    revive=revive,
                )
                services.storm.succeeded()
                break
            except DocumentFailed as error:
                failure = error
            except Exception as error:
                _log_frames(error)
                failure = DocumentFailed(
                    Reason.INTERNAL_ERROR, scope.stage_name, type(error).__name__[:64]
                )
            revive = yield from _held_back(services, scope, failure, again=held)
            if revive:
                held = True
                continue
            letter = yield from publish_dead_letter(
                services, scope, failure, received.replays, policy.retries
            )
            outcome = DocumentOutcome(
                document_id=document.document_id,
                status="dead_lettered",
                extraction_id=scope.extraction_id,
                reason=failure.reason.value,
                dead_letter_id=letter,
            )
            break
    finally:
        metrics.documents_in_progress.dec()
        services.live.ended(scope)
    _account(services, scope, outcome)
    return outcome


def _held_back(services: Services, scope: Scope, failure: DocumentFailed, *, again: bool) -> Task:
    """Task: True when the document is to be tried again: as the probe of a storm that held it back,
    or after it."""
    storm, clock = services.storm, services.clock
    if failure.reason not in FROM_THE_SERVICE:
        return False
    if again and not storm.on:
        # Somebody succeeded, and it failed once more: its own fault. Were it counted, documents
        # that can never succeed would light the same storm again for ever.
        return False
    if not storm.refused(scope.bundle_id or "", clock.monotonic()):
        return False
    scope.note("held_back", code=failure.reason.value)
    services.metrics.storm.set(1)
    # Trying one that the service failed would buy another job at every probe.
    costs_nothing = failure.reason in RETRIABLE_AFTER_STORM
    with scope.timeline.during("outage"):
        while storm.on:
            if costs_nothing and storm.probes(clock.monotonic()):
                return True
            yield Sleep(STORM_CHECK_S * services.rng.uniform(0.5, 1.5))
    services.metrics.storm.set(0)
    return costs_nothing


def _account(services: Services, scope: Scope, outcome: DocumentOutcome) -> None:
    metrics = services.metrics
    total = scope.timeline.total()
    example = exemplar(scope.extraction_id)
    metrics.documents.labels(outcome.status).inc()
    metrics.end_to_end.labels(outcome.status).observe(total, example)
    for cause, seconds in scope.timeline.seconds.items():
        metrics.cause.labels(cause).observe(seconds, example)
    if outcome.status == "extracted":
        metrics.last_success.set(services.clock.time())
    causes = {cause: round(seconds, 6) for cause, seconds in scope.timeline.seconds.items()}
    scope.note("ended", stage="publish", code=outcome.status, seconds=total, causes=causes)
