"""The deterministic names of things: any worker, any time, the same input gives the same name."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from schemas.canonical import canonical_json
from schemas.events import Pages

NAMESPACE = uuid.UUID("6f0c1d7e-3c0b-5b9a-9d0c-1a5f6e2b7c44")

SegmentIdentity = tuple[str, Pages | None]
"""(SHA-256 of the segment's source, its page range)."""


def _uuid(*parts: object) -> str:
    return str(uuid.uuid5(NAMESPACE, canonical_json(list(parts)).decode()))


def extraction_id(
    bundle_id: str, document_id: str, segments: Sequence[SegmentIdentity], policy_version: str
) -> str:
    """UUIDv5 of everything that makes this extraction this extraction.

    It is the correlation id, the idempotency key, the job record's key and the result's id.
    """
    listed = [[sha256, [p.first, p.last] if p else None] for sha256, p in segments]
    return _uuid("extraction", bundle_id, document_id, listed, policy_version)


def shard_key(extraction: str, first_page: int, last_page: int) -> str:
    """Job key of one shard of an extraction (pages of the document, 1-based, inclusive)."""
    return _uuid("shard", extraction, first_page, last_page)


def idempotency_key(job_key: str, generation: int) -> str:
    """What the service sees. Generation 1 is the job key itself; a further job after a failed or
    forgotten one must not be answered with the old one's result."""
    return job_key if generation == 1 else f"{job_key}.{generation}"


def bundle_result_id(bundle_id: str, policy_version: str, document_results: Sequence[str]) -> str:
    return _uuid("bundle-result", bundle_id, policy_version, list(document_results))


def dead_letter_id(topic: str, partition: int, offset: int, document_id: str, reason: str) -> str:
    """Equal for every redelivery of one record, so that consumers can drop duplicates."""
    return _uuid("dead-letter", topic, partition, offset, document_id, reason)


def manifest_prefix(
    bundle_id: str, document_id: str, source_sha256: str, policy_version: str
) -> str:
    return f"{bundle_id}/{document_id}/{source_sha256}-{policy_version}"


def manifest_key(bundle_id: str, document_id: str, source_sha256: str, policy_version: str) -> str:
    return manifest_prefix(bundle_id, document_id, source_sha256, policy_version) + "/manifest.json"


def image_name(page: int, index: int) -> str:
    """``page-042-image-003``: what a reviewer asks about (both 1-based)."""
    return f"page-{page:03d}-image-{index:03d}"


IMAGE_EXTENSIONS = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/jp2": "jp2",
    "image/j2c": "j2c",
    "image/tiff": "tif",
    "image/webp": "webp",
    "image/gif": "gif",
}


def image_key(prefix: str, name: str, sha256: str, media_type: str) -> str:
    """Name and content hash: a second writer can never clobber the first."""
    return f"{prefix}/images/{name}-{sha256[:16]}.{IMAGE_EXTENSIONS.get(media_type, 'bin')}"


def job_record_key(extraction: str) -> str:
    return f"_jobs/{extraction}.json"
