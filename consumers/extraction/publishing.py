"""What is said on the output topics: results, and dead letters. Acknowledged or said again."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import partial

from consumers.extraction.calls import call
from consumers.extraction.pressure.backoff import backoff_s
from consumers.extraction.scope import DocumentFailed, Scope
from consumers.extraction.services import Services
from consumers.extraction.timestamps import rfc3339
from consumers.metrics import exemplar, fault_of
from consumers.runtime.effects import Message, Publish, PublishRefused, Sleep, Task
from schemas import topics as names
from schemas.base import Contract
from schemas.canonical import canonical_json
from schemas.events import BundleEvent
from schemas.identity import bundle_result_id, dead_letter_id
from schemas.policy import Retries
from schemas.results import (
    BUNDLE_RESULT_TYPE,
    DOCUMENT_RESULT_TYPE,
    BundleResult,
    DocumentOutcome,
    DocumentResult,
    ManifestRef,
)
from sinks.manifests import ManifestWrite

PUBLISH_CEILING_S = 10.0
CLAIM_CHECK_HEADER_BYTES = 8192


def publish_document_result(services: Services, scope: Scope, write: ManifestWrite) -> Task:
    """Task: done when the broker has the `DocumentResult`; equal for every worker that sends it."""
    manifest = write.manifest
    result = DocumentResult(
        result_id=manifest.extraction_id,
        extraction_id=manifest.extraction_id,
        bundle_id=manifest.bundle_id,
        parent_bundle_id=manifest.parent_bundle_id,
        operation=manifest.operation,
        document_id=manifest.document_id,
        policy_version=manifest.policy_version,
        provider=manifest.provider,
        pages=manifest.pages,
        images=len(manifest.images),
        submits=manifest.submits,
        extracted_at=manifest.extracted_at,
        problems=manifest.problems,
        manifest=ManifestRef(bucket=services.output_bucket, key=write.key, sha256=write.sha256),
    )
    with scope.stage("publish"):
        yield from _publish(
            services,
            scope,
            _cloud_event(
                services,
                scope,
                DOCUMENT_RESULT_TYPE,
                result.result_id,
                result.bundle_id,
                result,
                manifest.extracted_at,
            ),
        )
    scope.note("result_published", stage="publish")


def publish_bundle_result(
    services: Services,
    scope: Scope,
    event: BundleEvent,
    policy_version: str,
    outcomes: Sequence[DocumentOutcome],
) -> Task:
    """Task: done when the broker has the `BundleResult`."""
    # Of everything that the body says: the same documents may end otherwise in another event, or
    # after a redelivery, and equal ids must carry equal bytes.
    said = [canonical_json(outcome).decode() for outcome in outcomes]
    about = [event.parent_bundle_id or "", event.operation.value]
    result = BundleResult(
        result_id=bundle_result_id(event.bundle_id, policy_version, [*about, *said]),
        bundle_id=event.bundle_id,
        parent_bundle_id=event.parent_bundle_id,
        operation=event.operation,
        policy_version=policy_version,
        extracted=sum(o.status == "extracted" for o in outcomes),
        dead_lettered=sum(o.status == "dead_lettered" for o in outcomes),
        documents=tuple(outcomes),
    )
    yield from _publish(
        services,
        scope,
        _cloud_event(
            services, scope, BUNDLE_RESULT_TYPE, result.result_id, event.bundle_id, result, None
        ),
    )
    scope.note("bundle_result_published", stage="publish")


def publish_dead_letter(
    services: Services, scope: Scope, failure: DocumentFailed, replays: int, retries: Retries
) -> Task:
    """Task: the dead letter's id, once the broker has it: the original bytes untouched, and why.

    A dead letter that the broker finds too large keeps its headers; its value moves to the output
    bucket (claim check).
    """
    origin, now = scope.origin, services.clock.time()
    identifier = dead_letter_id(
        origin.topic,
        origin.partition,
        origin.offset,
        scope.document_id or "",
        failure.reason.value,
    )
    ours: list[tuple[str, str | bytes]] = [
        (names.DLQ_VERSION, "1"),
        (names.DLQ_ID, identifier),
        (names.DLQ_REASON, failure.reason.value),
        (names.DLQ_STAGE, failure.stage),
        (names.DLQ_ATTEMPTS, str(scope.attempts)),
        (names.DLQ_TOPIC, origin.topic),
        (names.DLQ_PARTITION, str(origin.partition)),
        (names.DLQ_OFFSET, str(origin.offset)),
        (names.DLQ_GROUP, origin.group),
        (names.DLQ_FIRST_FAILED_AT, rfc3339(scope.first_failed_at or now)),
        (names.DLQ_LAST_FAILED_AT, rfc3339(now)),
        (names.DLQ_REPLAYS, str(replays)),
    ]
    optional = [
        (names.DLQ_CODE, failure.code),
        (names.DLQ_TIMESTAMP, None if origin.timestamp_ms is None else str(origin.timestamp_ms)),
        (names.DLQ_BUNDLE_ID, scope.bundle_id),
        (names.DLQ_DOCUMENT_ID, scope.document_id),
        (names.DLQ_EXTRACTION_ID, scope.extraction_id),
    ]
    ours += [(name, value) for name, value in optional if value is not None]
    message = Message(
        services.topics.dead_letters, origin.key, origin.value, (*_carried(scope), *ours)
    )
    with scope.stage("publish"):
        try:
            yield from _publish(services, scope, message)
        except PublishRefused:
            claim = yield from _claim_check(services, scope, identifier, retries)
            beside = _beside_claim_check(_carried(scope))
            headers = (*beside, *ours, (names.DLQ_CLAIM_CHECK, claim))
            message = Message(services.topics.dead_letters, origin.key, b"", headers)
            yield from _publish(services, scope, message, even_if_too_large=True)
    services.metrics.dead_letters.labels(failure.reason.value, fault_of(failure.reason)).inc(
        exemplar=exemplar(scope.extraction_id)
    )
    services.live.dead_lettered(scope, failure.reason, failure.stage)
    scope.note("dead_lettered", stage=failure.stage, code=failure.reason.value)
    return identifier


def _carried(scope: Scope) -> list[tuple[str, bytes]]:
    """The record's own headers, without those of an earlier dead letter and without giants."""
    return [
        (name, value)
        for name, value in scope.origin.headers
        if value is not None
        and len(value) <= names.MAX_HEADER_BYTES
        and not name.lower().startswith(names.DLQ_PREFIX)
    ][: names.MAX_CARRIED_HEADERS]


def _beside_claim_check(carried: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    """Where even they are large, only what says how the value is to be read: a replay needs it."""
    if sum(len(name) + len(value) for name, value in carried) <= CLAIM_CHECK_HEADER_BYTES:
        return carried
    needed = (names.CONTENT_TYPE, names.TRACEPARENT, "ce_")
    return [(name, value) for name, value in carried if name.lower().startswith(needed)]


def _claim_check(services: Services, scope: Scope, identifier: str, retries: Retries) -> Task:
    key, value = f"_dead-letters/{identifier}", scope.origin.value or b""
    yield from call(
        services,
        scope,
        services.output,
        "claim_check",
        partial(
            services.store.put_if_absent,
            services.output_bucket,
            key,
            value,
            content_type="application/octet-stream",
            sha256=hashlib.sha256(value).hexdigest(),
        ),
        retries=retries,
    )
    return f"s3://{services.output_bucket}/{key}"


def _cloud_event(
    services: Services,
    scope: Scope,
    event_type: str,
    identifier: str,
    bundle_id: str,
    data: Contract,
    time: str | None,
) -> Message:
    headers: list[tuple[str, str | bytes]] = [
        (names.CE_SPECVERSION, "1.0"),
        (names.CE_TYPE, event_type),
        (names.CE_SOURCE, services.event_source),
        (names.CE_ID, identifier),
        (names.CE_SUBJECT, bundle_id),
        (names.CONTENT_TYPE, names.JSON_CONTENT_TYPE),
    ]
    if time is not None:
        headers.append((names.CE_TIME, time))
    if scope.traceparent is not None:
        headers.append((names.TRACEPARENT, scope.traceparent))
    return Message(services.topics.results, bundle_id.encode(), canonical_json(data), headers)


def _publish(
    services: Services, scope: Scope, message: Message, *, even_if_too_large: bool = False
) -> Task:
    """Said again until it is acknowledged: only this record's offset waits meanwhile.

    :raises PublishRefused: too large, which no repetition cures, and ``even_if_too_large`` unset.
    """
    attempt = 0
    while True:
        try:
            yield Publish(message)
            services.outbox.delivered(message.topic)
            return
        except PublishRefused as refused:
            attempt += 1
            services.outbox.refused(message.topic, services.clock.monotonic())
            services.metrics.publish_failures.labels(message.topic, refused.code).inc()
            if message.topic == services.topics.dead_letters:
                services.metrics.dead_letter_failures.labels(refused.code).inc()
            scope.note("publish_refused", code=refused.code, attempt=attempt)
            if (
                refused.too_large
                and not even_if_too_large
                and message.topic == services.topics.dead_letters
            ):
                raise
        with scope.timeline.during("retry"):
            yield Sleep(
                backoff_s(attempt, first_s=0.5, ceiling_s=PUBLISH_CEILING_S, rng=services.rng)
            )
