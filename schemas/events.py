"""Bundle events: what upstream systems announce (topic ``bundles.events.v1``)."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, Field, model_validator

from schemas.base import BucketName, Id, ObjectKey, Operation, Received, Sha256

EVENT_TYPE = "bundles.bundle.v1"
"""The CloudEvents ``type`` of a bundle event (also accepted: the value without an envelope)."""


class Pages(Received):
    """An inclusive range of 1-based pages of the source."""

    first: int = Field(ge=1, le=1_000_000)
    last: int = Field(ge=1, le=1_000_000)

    @model_validator(mode="after")
    def _ordered(self) -> Pages:
        if self.last < self.first:
            raise ValueError("pages.last must not be before pages.first")
        return self


class Source(Received):
    """An object in the input store. ``sha256`` and ``bytes`` are checked when given."""

    key: ObjectKey
    bucket: BucketName | None = None
    """None: the worker's configured input bucket."""
    sha256: Sha256 | None = None
    bytes: int | None = Field(None, ge=0)


class Segment(Received):
    """A source, whole or a page range of it."""

    source: Source
    pages: Pages | None = None
    password_secret: Id | None = None
    """Name of a secret that the worker holds; never a password."""


class Document(Received):
    """One whole segment = take the PDF as it is; a range = split; several segments = merge."""

    document_id: Id
    segments: tuple[Segment, ...] = Field(min_length=1, max_length=10_000)

    @property
    def is_whole(self) -> bool:
        return len(self.segments) == 1 and self.segments[0].pages is None


class BundleEvent(Received):
    schema_version: Literal[1] = 1
    bundle_id: Id
    parent_bundle_id: Id | None = None
    operation: Operation = Operation.RECEIVED
    policy: Id = "default"
    occurred_at: AwareDatetime | None = None
    documents: tuple[Document, ...] = Field(min_length=1, max_length=10_000)

    @model_validator(mode="after")
    def _documents_distinct(self) -> BundleEvent:
        ids = [d.document_id for d in self.documents]
        if len(set(ids)) != len(ids):
            raise ValueError("document_id must be unique within a bundle")
        return self
