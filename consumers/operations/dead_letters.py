"""Dead letters as they stand on their topic, and which of them somebody asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from confluent_kafka import Message as Record

from consumers.extraction.timestamps import parse_rfc3339
from consumers.operations.reading import header_text, headers_of
from schemas import topics as names
from schemas.cloudevents import Headers


class Original(NamedTuple):
    """The record that was dead-lettered. The timestamp tells it from one at the same place in a
    topic that was made anew; None where the record had none."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}@{self.offset}"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    identifier: str
    reason: str
    stage: str
    code: str | None
    original: Original
    failed_at: float
    """Of the last attempt; seconds since 1970."""
    replays: int
    bundle_id: str | None
    document_id: str | None
    extraction_id: str | None
    claim_check: str | None
    key: bytes | None = field(repr=False)
    value: bytes | None = field(repr=False)
    headers: Headers = field(repr=False)
    """The original's own."""


def parse_dead_letter(record: Record) -> DeadLetter | None:
    """None for a record that is not one of ours."""
    received = headers_of(record)
    texts = header_text(received)
    try:
        timestamp = texts.get(names.DLQ_TIMESTAMP)
        original = Original(
            texts[names.DLQ_TOPIC],
            int(texts[names.DLQ_PARTITION]),
            int(texts[names.DLQ_OFFSET]),
            None if timestamp is None else int(timestamp),
        )
        failed_at = parse_rfc3339(texts[names.DLQ_LAST_FAILED_AT])
        replays = int(texts.get(names.DLQ_REPLAYS, "0"))
        identifier = texts[names.DLQ_ID]
        reason, stage = texts[names.DLQ_REASON], texts[names.DLQ_STAGE]
    except (KeyError, ValueError):
        return None
    if failed_at is None or replays < 0:
        return None
    return DeadLetter(
        identifier=identifier,
        reason=reason,
        stage=stage,
        code=texts.get(names.DLQ_CODE),
        original=original,
        failed_at=failed_at,
        replays=replays,
        bundle_id=texts.get(names.DLQ_BUNDLE_ID),
        document_id=texts.get(names.DLQ_DOCUMENT_ID),
        extraction_id=texts.get(names.DLQ_EXTRACTION_ID),
        claim_check=texts.get(names.DLQ_CLAIM_CHECK),
        key=record.key(),
        value=record.value(),
        headers=tuple(
            (name, value)
            for name, value in received
            if not name.lower().startswith((names.DLQ_PREFIX, names.REPLAY_PREFIX))
        ),
    )


@dataclass(frozen=True, slots=True)
class Filter:
    """Which dead letters; what is not given does not matter. Times in seconds since 1970."""

    reasons: frozenset[str] = frozenset()
    stages: frozenset[str] = frozenset()
    since: float | None = None
    until: float | None = None
    bundle_id: str | None = None
    document_id: str | None = None
    extraction_id: str | None = None
    identifier: str | None = None

    @property
    def empty(self) -> bool:
        return self == Filter()

    def matches(self, letter: DeadLetter) -> bool:
        exact: Mapping[str, str | None] = {
            "bundle_id": self.bundle_id,
            "document_id": self.document_id,
            "extraction_id": self.extraction_id,
            "identifier": self.identifier,
        }
        return (
            (not self.reasons or letter.reason in self.reasons)
            and (not self.stages or letter.stage in self.stages)
            and (self.since is None or letter.failed_at >= self.since)
            and (self.until is None or letter.failed_at < self.until)
            and all(
                wanted is None or getattr(letter, name) == wanted for name, wanted in exact.items()
            )
        )
