"""The manifest: the audit artefact, one per (bundle, document, source checksum, policy version).

Written once as canonical JSON. Byte-identical for any worker that writes it, because every varying
value comes from the job record, never from the writer's clock, host or luck.
"""

from __future__ import annotations

from operator import not_
from typing import Literal

from pydantic import Field

from schemas.base import Code, Contract, Id, ObjectKey, Operation, Sha256
from schemas.problems import Problem


class ManifestSegment(Contract):
    bucket: str
    key: ObjectKey
    sha256: Sha256
    bytes: int
    first_page: int | None = None
    last_page: int | None = None


class ManifestJob(Contract):
    """One remote job; a document that was cut into shards has several."""

    job_id: str
    idempotency_key: str
    first_page: int = Field(ge=1)
    last_page: int
    submits: int = Field(ge=1)
    """Submit calls recorded for this job, all generations."""
    accepted_at: str
    """RFC 3339 UTC: when the service's acceptance was recorded."""


class ManifestImage(Contract):
    name: str
    page: int = Field(ge=1)
    """Page of the document (1-based)."""
    segment: int = Field(ge=1)
    """Which of ``segments`` (1-based) the page came from."""
    source_page: int = Field(ge=1)
    """Page in that segment's source."""
    key: ObjectKey
    sha256: Sha256
    bytes: int
    media_type: str
    width: int
    height: int
    is_mask: bool = Field(False, exclude_if=not_)
    """No picture of the page: the transparency of the image before it, which the policy asked for
    as an image of its own (``soft_masks = "separate"``). Left out where false."""


class Manifest(Contract):
    schema_version: Literal[1] = 1
    extraction_id: str
    bundle_id: Id
    parent_bundle_id: Id | None = None
    operation: Operation
    document_id: Id
    segments: tuple[ManifestSegment, ...]
    submitted_sha256: Sha256
    submitted_bytes: int
    pages: int
    policy_version: str
    provider: Id
    jobs: tuple[ManifestJob, ...]
    submits: int
    """Submit calls over all jobs: 1 per job unless something went wrong."""
    extracted_at: str
    """RFC 3339 UTC: the latest end of a job by the service's own record; where it keeps none, the
    latest acceptance."""
    images: tuple[ManifestImage, ...]
    problems: tuple[Problem, ...] = Field((), exclude_if=not_)
    """Images and pages that the service could not give, in page order: at most a hundred, then one
    entry ``more``. Left out where there are none."""
    parser: Code | None = None
    """Which engine counted the pages (``pypdf``, or ``pikepdf`` for damaged documents)."""
