"""A policy: everything that decides how a document is processed.

``policy_version`` covers only the fields that change the *output*; how patiently a job is polled
may change without a re-extraction.
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field, model_validator

from schemas.base import Code, Contract, Id
from schemas.canonical import canonical_json
from schemas.units import Bytes, Days, Seconds

MIB = 1024 * 1024

# The bound is inside, or it would stand beside the type in the exported schema, without effect.
PositiveBytes = Annotated[Bytes, Field(gt=0)]
PositiveDays = Annotated[Days, Field(gt=0)]


ImageType = Literal["image/png", "image/jpeg", "image/jp2", "image/j2c", "image/tiff", "image/webp"]
"""What can be decoded, and so be proven to be an image."""


class Limits(Contract):
    """Bounds on what is accepted and produced. Bytes, pages, pixels, counts."""

    max_document_bytes: Bytes = Field(200 * MIB, gt=0)
    """Of a document as it is submitted."""
    max_source_bytes: Bytes = Field(1024 * MIB, gt=0)
    """Of a source that only a page range is taken from."""
    max_pages: int = Field(2000, gt=0)
    """Of a document."""
    max_documents_per_event: int = Field(500, gt=0)
    """Documents of one bundle."""
    max_segments_per_document: int = Field(500, gt=0)
    """Parts that one document is put together from."""
    max_images: int = Field(20_000, gt=0)
    """Images of one document."""
    max_image_bytes: Bytes = Field(64 * MIB, gt=0)
    """Of one image as the service gives it."""
    max_image_pixels: int = Field(200_000_000, gt=0)
    """Width times height of one image."""
    allowed_image_types: tuple[ImageType, ...] = (
        "image/png",
        "image/jpeg",
        "image/jp2",
        "image/tiff",
        "image/webp",
    )
    """Media types of images that are kept; others fail their document."""
    accept_header_offset: bool = True
    """Accept a ``%PDF-`` that stands after junk within the first 1,024 bytes."""


class Sharding(Contract):
    """A document beyond either bound is cut into jobs of at most that size. None: never.

    A single page that is larger than the bound on bytes is a job of its own."""

    max_pages_per_job: int | None = Field(None, gt=0)
    """Pages of one job."""
    max_bytes_per_job: PositiveBytes | None = None
    """Bytes of one job."""


class Polling(Contract):
    """When a running job is asked again. Seconds."""

    strategy: Literal["doubling", "learned"] = "learned"
    """`learned`: when a job of its size is likely to end; `doubling` until enough are known."""
    first_delay_s: Seconds = Field(0.5, gt=0)
    """Seconds from the submit to the first poll."""
    multiplier: float = Field(2.0, ge=1)
    """What each delay is multiplied by for the next."""
    ceiling_s: Seconds = Field(8.0, gt=0)
    """No delay is longer, in seconds, unless the service asks for it."""
    floor_s: Seconds = Field(0.1, gt=0)
    """No delay is shorter, in seconds."""
    deadline_s: Seconds = Field(300.0, gt=0)
    """From the moment the service accepted the job."""
    honour_hints: bool = True
    """Never ask earlier than the service says."""

    @model_validator(mode="after")
    def _ordered(self) -> Polling:
        if self.ceiling_s < self.first_delay_s:
            raise ValueError("polling.ceiling_s must not be below polling.first_delay_s")
        return self


class Retries(Contract):
    """What a document may spend. A throttled call (429, 503 with Retry-After) spends nothing."""

    max_attempts_per_call: int = Field(5, gt=0)
    """Tries of one call that failed for a passing reason."""
    backoff_first_s: Seconds = Field(0.5, gt=0)
    """Seconds before the second try; doubled from then on, with jitter."""
    backoff_ceiling_s: Seconds = Field(30.0, gt=0)
    """No such wait is longer, in seconds."""
    max_resubmits: int = Field(1, ge=0)
    """Further jobs after one was forgotten, failed for its own reasons, or was left uncertain."""
    not_found_grace: int = Field(3, ge=0)
    """404 answers on a job that are put down to replication before the job counts as forgotten."""
    submitting_lease_s: Seconds = Field(60.0, gt=0)
    """How long another worker's open submit is waited for where the service is not idempotent."""
    max_replays: int = Field(5, ge=0)
    """How often one dead letter may be sent round again."""


class Retention(Contract):
    """How long things are kept. Days; None: for ever."""

    job_record_days: PositiveDays | None = 90.0
    """Days that job records are kept."""
    output_days: PositiveDays | None = None
    """Days that manifests and images are kept."""
    legal_hold: bool = False
    """Nothing of this policy is deleted, whatever its age."""


class Policy(Contract):
    name: Id
    """The policy's name; that of its table where not given."""
    provider: Id = "selfhosted"
    """Name of a configured provider."""
    soft_masks: Literal["composite", "separate", "ignore"] = "composite"
    """What becomes of an image's transparency: drawn into it, an image of its own, or left out."""
    repeat_drawings: bool = False
    """An image that is drawn more than once is extracted each time."""
    provider_options: dict[Code, str] = Field(default_factory=dict)
    """Options of the service's own, passed on as they are."""
    forbidden_regions: tuple[Code, ...] = ()
    """Regions, in the service's own words, in which no document may be processed. A worker does not
    start with a service that may process there, or that does not tell where it does."""
    incomplete: Literal["accept", "fail"] = "accept"
    """A document of which the service could not give an image or a page, and says so: its manifest
    and result tell of it, or it ends as a dead letter (`provider_incomplete`). No part of the
    policy version: what is extracted already is kept and judged anew."""
    forget_after_manifest: bool = True
    """Ask the service to delete the job once the manifest is durable, where it can."""
    limits: Limits = Limits()
    sharding: Sharding = Sharding()
    polling: Polling = Polling()
    retries: Retries = Retries()
    retention: Retention = Retention()
    ordered_by_key: bool = False
    """Process events of one key one after the other."""

    @cached_property
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
