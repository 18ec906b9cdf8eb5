"""What is published on ``bundles.results.v1``: CloudEvents in binary mode, key = bundle id.

At least once: a consumer drops duplicates by ``ce_id``. Equal ids carry equal bytes.
"""

from __future__ import annotations

from operator import not_
from typing import Literal

from pydantic import Field

from schemas.base import Code, Contract, Id, ObjectKey, Operation, Sha256
from schemas.problems import Problem

DOCUMENT_RESULT_TYPE = "bundles.document-result.v1"
BUNDLE_RESULT_TYPE = "bundles.bundle-result.v1"


class ManifestRef(Contract):
    bucket: str
    key: ObjectKey
    sha256: Sha256


class DocumentResult(Contract):
    """One document's images are durable; ``result_id`` (= ``ce_id``) is its extraction id."""

    schema_version: Literal[1] = 1
    result_id: str
    extraction_id: str
    bundle_id: Id
    parent_bundle_id: Id | None = None
    operation: Operation
    document_id: Id
    status: Literal["extracted"] = "extracted"
    policy_version: str
    provider: Id
    pages: int
    images: int
    submits: int
    extracted_at: str
    problems: tuple[Problem, ...] = Field((), exclude_if=not_)
    """As in the manifest. Left out where there are none."""
    manifest: ManifestRef


class DocumentOutcome(Contract):
    """A document's line in its bundle's result."""

    document_id: Id
    status: Literal["extracted", "dead_lettered"]
    extraction_id: str | None = None
    reason: Code | None = None
    dead_letter_id: str | None = None
    images: int | None = None
    manifest_key: ObjectKey | None = None


class BundleResult(Contract):
    """Every document of the event is terminal."""

    schema_version: Literal[1] = 1
    result_id: str
    bundle_id: Id
    parent_bundle_id: Id | None = None
    operation: Operation
    policy_version: str
    extracted: int = Field(ge=0)
    dead_lettered: int = Field(ge=0)
    documents: tuple[DocumentOutcome, ...]
