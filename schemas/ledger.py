"""The ledger topic: every transition, attempt, wait and byte count of every document."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from schemas.base import Code, Contract, Id, MediaType


class LedgerRecord(Contract):
    """One line of an extraction's life; key = extraction id (bundle id before there is one).

    ``seconds`` is how long the thing took; ``wait_s`` how long it waited before (queue, gate,
    Retry-After). No content, no source keys, no message texts.
    """

    schema_version: Literal[1] = 1
    at: str
    """RFC 3339 UTC, milliseconds, this worker's clock."""
    worker: str
    """Random id of the worker process."""
    bundle_id: Id | None = None
    document_id: Id | None = None
    extraction_id: str | None = None
    job_key: str | None = None
    job_id: str | None = None
    stage: Code
    event: Code
    """What happened, e.g. ``started``, ``succeeded``, ``failed``, ``throttled``, ``resumed``."""
    attempt: int | None = Field(None, ge=0)
    code: Code | None = None
    seconds: float | None = None
    wait_s: float | None = None
    bytes: int | None = None
    pages: int | None = None
    images: int | None = None
    problems: int | None = Field(None, ge=1)
    """Images and pages that the service could not give."""
    causes: dict[Code, float] | None = None
    """Of an ended document: its end-to-end seconds by cause (`consumers.stages.CAUSES`)."""
    libmagic_type: MediaType | None = None
    """Of a validated document: what libmagic takes it for. No verdict depends on it."""
    libmagic_version: int | None = None
    """Of the library that said so: 545 is 5.45."""
    header_offset: int | None = Field(None, ge=0)
    """Of a validated document: bytes before its PDF header."""
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    traceparent: str | None = None
