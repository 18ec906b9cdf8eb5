"""A store in memory with documents in it, at a clock that tests move."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from consumers.extraction.timestamps import rfc3339
from schemas.base import Operation
from schemas.canonical import canonical_json
from schemas.identity import (
    extraction_id,
    image_key,
    image_name,
    job_record_key,
    manifest_key,
    manifest_prefix,
)
from schemas.job_record import JobPhase, JobRecord, JobShard
from schemas.manifest import Manifest, ManifestImage, ManifestJob, ManifestSegment
from schemas.policy import Policy
from schemas.problems import Problem
from sinks.objectstore import MemoryStore

BUCKET, INPUT = "output", "input"
HOUR, DAY = 3600.0, 86_400.0
START = 1_750_000_000.0


def policy(name: str = "default", **changes: Any) -> Policy:
    return Policy.model_validate({"name": name, **changes})


@dataclass
class Stored:
    """``time`` is the store's clock, in seconds since 1970."""

    time: float = START
    bucket: str = BUCKET
    store: MemoryStore = field(init=False)

    def __post_init__(self) -> None:
        self.store = MemoryStore(now=lambda: datetime.fromtimestamp(self.time, UTC))
        self.store.ensure_bucket(self.bucket)
        self.store.ensure_bucket(INPUT)

    def clock(self) -> float:
        return self.time

    def keys(self, bucket: str = BUCKET) -> set[str]:
        return {item.key for item in self.store.list(bucket, "")}

    def put(self, key: str, body: bytes = b"x", bucket: str | None = None) -> str:
        self.store.put(bucket or self.bucket, key, body, content_type="application/octet-stream")
        return key


@dataclass
class ADocument:
    """One document's record, images and manifest; write as much of it as the test needs."""

    stored: Stored
    policy: Policy = field(default_factory=policy)
    bundle_id: str = "bundle-1"
    document_id: str = "document-001"
    source: str = "uploads/aa/" + "a" * 64 + ".pdf"
    pages: int = 2
    problems: tuple[Problem, ...] = ()

    @property
    def sha256(self) -> str:
        return hashlib.sha256(f"{self.bundle_id}/{self.document_id}".encode()).hexdigest()

    @property
    def extraction_id(self) -> str:
        return extraction_id(
            self.bundle_id, self.document_id, [(self.sha256, None)], self.policy.version
        )

    @property
    def prefix(self) -> str:
        return manifest_prefix(self.bundle_id, self.document_id, self.sha256, self.policy.version)

    @property
    def manifest_key(self) -> str:
        return manifest_key(self.bundle_id, self.document_id, self.sha256, self.policy.version)

    @property
    def record_key(self) -> str:
        return job_record_key(self.extraction_id)

    @property
    def segment(self) -> ManifestSegment:
        return ManifestSegment(bucket=INPUT, key=self.source, sha256=self.sha256, bytes=1)

    def write_record(self, phase: JobPhase = JobPhase.SUBMITTED) -> str:
        at = rfc3339(self.stored.time)
        record = JobRecord(
            extraction_id=self.extraction_id,
            bundle_id=self.bundle_id,
            operation=Operation.RECEIVED,
            document_id=self.document_id,
            policy_version=self.policy.version,
            provider="service",
            segments=(self.segment,),
            submitted_sha256=self.sha256,
            submitted_bytes=1,
            pages=self.pages,
            page_map=((1, 1, self.pages),),
            created_at=at,
            updated_at=at,
            owner="worker",
            shards=(
                JobShard(
                    first_page=1,
                    last_page=self.pages,
                    job_key=self.extraction_id,
                    phase=phase,
                    submits=1,
                    job_id=f"job-{self.extraction_id[:8]}",
                    accepted_at=at,
                ),
            ),
            manifest_key=self.manifest_key,
        )
        return self.stored.put(self.record_key, canonical_json(record))

    def image(self, page: int, content: bytes | None = None) -> ManifestImage:
        body = content or f"{self.prefix} {page}".encode()
        sha256 = hashlib.sha256(body).hexdigest()
        name = image_name(page, 1)
        return ManifestImage(
            name=name,
            page=page,
            segment=1,
            source_page=page,
            key=image_key(self.prefix, name, sha256, "image/png"),
            sha256=sha256,
            bytes=len(body),
            media_type="image/png",
            width=1,
            height=1,
        )

    def write_image(self, page: int, content: bytes | None = None) -> str:
        body = content or f"{self.prefix} {page}".encode()
        return self.stored.put(self.image(page, content).key, body)

    def write_images(self) -> list[str]:
        return [self.write_image(page) for page in range(1, self.pages + 1)]

    def write_manifest(self) -> str:
        at = rfc3339(self.stored.time)
        manifest = Manifest(
            extraction_id=self.extraction_id,
            bundle_id=self.bundle_id,
            operation=Operation.RECEIVED,
            document_id=self.document_id,
            segments=(self.segment,),
            submitted_sha256=self.sha256,
            submitted_bytes=1,
            pages=self.pages,
            policy_version=self.policy.version,
            provider="service",
            jobs=(
                ManifestJob(
                    job_id=f"job-{self.extraction_id[:8]}",
                    idempotency_key=self.extraction_id,
                    first_page=1,
                    last_page=self.pages,
                    submits=1,
                    accepted_at=at,
                ),
            ),
            submits=1,
            extracted_at=at,
            images=tuple(self.image(page) for page in range(1, self.pages + 1)),
            problems=self.problems,
        )
        return self.stored.put(self.manifest_key, canonical_json(manifest))

    def write_all(self) -> None:
        self.write_record()
        self.write_images()
        self.write_manifest()
