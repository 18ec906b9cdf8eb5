"""Topic names, header names and record sizes: the contract of what stands on Kafka."""

from __future__ import annotations

from pydantic import Field

from schemas.base import Contract

CONTENT_TYPE = "content-type"
JSON_CONTENT_TYPE = "application/json"
TRACEPARENT = "traceparent"

# CloudEvents, binary content mode (Kafka protocol binding 1.0.2)
CE_SPECVERSION = "ce_specversion"
CE_TYPE = "ce_type"
CE_SOURCE = "ce_source"
CE_ID = "ce_id"
CE_TIME = "ce_time"
CE_SUBJECT = "ce_subject"

# Dead letters: text values, bounded, versioned. No message text, no stack trace.
DLQ_PREFIX = "x-dlq-"
DLQ_VERSION = "x-dlq-version"
DLQ_ID = "x-dlq-id"
DLQ_REASON = "x-dlq-reason"
DLQ_STAGE = "x-dlq-stage"
DLQ_CODE = "x-dlq-code"
"""A bounded word that says more than the reason, e.g. the service's error code."""
DLQ_ATTEMPTS = "x-dlq-attempts"
DLQ_TOPIC = "x-dlq-original-topic"
DLQ_PARTITION = "x-dlq-original-partition"
DLQ_OFFSET = "x-dlq-original-offset"
DLQ_TIMESTAMP = "x-dlq-original-timestamp"
DLQ_GROUP = "x-dlq-consumer-group"
DLQ_FIRST_FAILED_AT = "x-dlq-first-failed-at"
DLQ_LAST_FAILED_AT = "x-dlq-last-failed-at"
DLQ_BUNDLE_ID = "x-dlq-bundle-id"
DLQ_DOCUMENT_ID = "x-dlq-document-id"
DLQ_EXTRACTION_ID = "x-dlq-extraction-id"
DLQ_REPLAYS = "x-dlq-replays"
DLQ_CLAIM_CHECK = "x-dlq-claim-check"
"""``s3://<output bucket>/_dead-letters/<id>``: where the original value stands when it was too
large to be sent again; the record's value is then empty."""

REPLAY_PREFIX = "x-replay-"
REPLAY_COUNT = "x-replay-count"
REPLAY_DEAD_LETTER_ID = "x-replay-dead-letter-id"

MAX_HEADER_BYTES = 1024
"""A received header longer than this is not carried over to a dead letter."""

MAX_CARRIED_HEADERS = 64

OWN_HEADERS_BYTES = 16_384
"""More than our own headers of a dead letter take."""


class TopicSettings(Contract):
    """Names of the four topics."""

    events: str = Field("bundles.events.v1", min_length=1)
    """Bundle events: read by the workers, written to by upstream systems and by replays."""
    results: str = Field("bundles.results.v1", min_length=1)
    """Results of documents and bundles."""
    dead_letters: str = Field("bundles.dead-letters.v1", min_length=1)
    """What could not be extracted, with the reason."""
    ledger: str = Field("bundles.ledger.v1", min_length=1)
    """Every transition and attempt."""


TOPIC_CONFIG: dict[str, dict[str, str]] = {
    "events": {"max.message.bytes": "1048576", "retention.ms": str(14 * 86_400_000)},
    "results": {"max.message.bytes": "2097152", "retention.ms": str(30 * 86_400_000)},
    # Above the events topic's bound: a dead letter is an event plus headers.
    "dead_letters": {"max.message.bytes": "2097152", "retention.ms": str(90 * 86_400_000)},
    "ledger": {"max.message.bytes": "1048576", "retention.ms": str(90 * 86_400_000)},
}
