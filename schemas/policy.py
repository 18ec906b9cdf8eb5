"""A policy: everything that decides how a document is processed.

``policy_version`` covers only the fields that change the *output*; how patiently a job is polled
may change without a re-extraction.
"""

from __future__ import annotations

import hashlib
from typing import Literal

from pydantic import Field, model_validator

from schemas.base import Code, Contract, Id
from schemas.canonical import canonical_json

MIB = 1024 * 1024


class Limits(Contract):
    """Bounds on what is accepted and produced. Bytes, pages, pixels, counts."""

    max_document_bytes: int = Field(200 * MIB, gt=0)
    max_source_bytes: int = Field(1024 * MIB, gt=0)
    """Of a source that only a page range is taken from."""
    max_pages: int = Field(2000, gt=0)
    max_documents_per_event: int = Field(500, gt=0)
    max_segments_per_document: int = Field(500, gt=0)
    max_images: int = Field(20_000, gt=0)
    max_image_bytes: int = Field(64 * MIB, gt=0)
    max_image_pixels: int = Field(200_000_000, gt=0)
    allowed_image_types: tuple[str, ...] = (
        "image/png",
        "image/jpeg",
        "image/jp2",
        "image/tiff",
        "image/webp",
    )
    accept_header_offset: bool = True
    """Accept a ``%PDF-`` that stands after junk within the first 1,024 bytes."""


class Sharding(Contract):
    """A document beyond either bound is cut into jobs of at most that size. None: never."""

    max_pages_per_job: int | None = Field(None, gt=0)
    max_bytes_per_job: int | None = Field(None, gt=0)


class Polling(Contract):
    """When a running job is asked again. Seconds."""

    strategy: Literal["doubling", "learned"] = "doubling"
    first_delay_s: float = Field(0.5, gt=0)
    multiplier: float = Field(2.0, ge=1)
    ceiling_s: float = Field(8.0, gt=0)
    floor_s: float = Field(0.1, gt=0)
    deadline_s: float = Field(300.0, gt=0)
    """From the moment the service accepted the job."""
    honour_hints: bool = True

    @model_validator(mode="after")
    def _ordered(self) -> Polling:
        if self.ceiling_s < self.first_delay_s:
            raise ValueError("polling.ceiling_s must not be below polling.first_delay_s")
        return self


class Retries(Contract):
    """What a document may spend. A throttled call (429, 503 with Retry-After) spends nothing."""

    max_attempts_per_call: int = Field(5, gt=0)
    backoff_first_s: float = Field(0.5, gt=0)
    backoff_ceiling_s: float = Field(30.0, gt=0)
    max_resubmits: int = Field(1, ge=0)
    """Further jobs after one was forgotten, failed for its own reasons, or was left uncertain."""
    not_found_grace: int = Field(3, ge=0)
    """404 answers on a job that are put down to replication before the job counts as forgotten."""
    submitting_lease_s: float = Field(60.0, gt=0)
    """How long another worker's open submit is waited for where the service is not idempotent."""
    max_replays: int = Field(5, ge=0)


class Retention(Contract):
    """How long things are kept. Days; None: for ever."""

    job_record_days: float | None = Field(90.0, gt=0)
    output_days: float | None = Field(None, gt=0)
    legal_hold: bool = False


class Policy(Contract):
    name: Id
    provider: Id = "selfhosted"
    """Name of a configured provider."""
    soft_masks: Literal["composite", "separate", "ignore"] = "composite"
    repeat_drawings: bool = False
    provider_options: dict[Code, str] = Field(default_factory=dict)
    forget_after_manifest: bool = True
    """Ask the service to delete the job once the manifest is durable, where it can."""
    limits: Limits = Limits()
    sharding: Sharding = Sharding()
    polling: Polling = Polling()
    retries: Retries = Retries()
    retention: Retention = Retention()
    ordered_by_key: bool = False
    """Process events of one key one after the other."""

    @property
    def version(self) -> str:
        """``<name>-<12 hex digits>`` over every field that changes the output."""
        material = {
            "provider": self.provider,
            "soft_masks": self.soft_masks,
            "repeat_drawings": self.repeat_drawings,
            "provider_options": self.provider_options,
            "limits": self.limits.model_dump(mode="json"),
        }
        return f"{self.name}-{hashlib.sha256(canonical_json(material)).hexdigest()[:12]}"
