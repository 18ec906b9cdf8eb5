"""The job record: what a successor needs to go on with a remote job that somebody else started.

Created (conditionally) before the first remote call, replaced (``If-Match``) after each answer that
matters. A record is never deleted while its manifest stands: it is how a redelivery finds it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from schemas.base import Code, Contract, Id, Operation, Sha256
from schemas.manifest import ManifestSegment


class JobPhase(StrEnum):
    PLANNED = "planned"
    """No submit was begun. Only where the service is not idempotent: elsewhere a job starts out
    SUBMITTING, because a second submit makes no second job."""
    SUBMITTING = "submitting"
    """A submit may be under way, or its worker died before it could record the answer."""
    SUBMITTED = "submitted"
    """The service accepted; ``job_id`` is its id."""
    FAILED = "failed"
    """The service's verdict on this generation; only a replay starts another."""
    TIMED_OUT = "timed_out"
    """The deadline passed while the service said running; a replay goes on polling this job."""


class JobShard(Contract):
    """One remote job: the whole document, or a page range of it (1-based, inclusive)."""

    first_page: int = Field(ge=1)
    last_page: int
    job_key: str
    phase: JobPhase = JobPhase.SUBMITTING
    generation: int = 1
    submits: int = 0
    """Submit calls that were begun, over all generations; written before each call. Where the
    service is idempotent, repetitions under one key are one."""
    job_id: str | None = None
    accepted_at: str | None = None
    resumed_at: str | None = None
    """When a replay gave the job new patience; the deadline then counts from here."""
    last_status: Code | None = None
    """The service's last word that mattered (its status or error code)."""
    failure: Code | None = None
    """The reason (`schemas.reasons`) with which this shard ended FAILED or TIMED_OUT."""


class JobRecord(Contract):
    schema_version: Literal[1] = 1
    extraction_id: str
    bundle_id: Id
    parent_bundle_id: Id | None = None
    operation: Operation
    document_id: Id
    policy_version: str
    provider: Id
    segments: tuple[ManifestSegment, ...]
    submitted_sha256: Sha256
    submitted_bytes: int
    pages: int
    page_map: tuple[tuple[int, int, int], ...]
    """Runs of pages: (segment (1-based), first source page, number of pages), in document order."""
    parser: Code | None = None
    created_at: str
    updated_at: str
    owner: str
    """Random id of the worker process that wrote this version; not a host name."""
    replays: int = 0
    shards: tuple[JobShard, ...]
    manifest_key: str
