"""Manifests: written once; the loser of a race goes on with the winner's."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from schemas.canonical import canonical_json
from schemas.identity import manifest_key
from schemas.manifest import Manifest
from sinks import stored_models
from sinks.objectstore import ObjectStore, PutKind, StoreUnavailable
from sinks.stored_models import JSON

MAX_BYTES = 64 * 1024 * 1024
"""More than a hundred thousand images; a manifest larger than this is not ours."""


@dataclass(frozen=True, slots=True)
class ManifestWrite:
    """The manifest that stands, whoever wrote it; `sha256` (hex) and `bytes` are of what is stored.

    `outcome`: created, identical, conflict, ambiguous_resolved; found, if it was only read.
    """

    outcome: str
    key: str
    manifest: Manifest
    sha256: str
    bytes: int


class ManifestStore:
    def __init__(self, store: ObjectStore, bucket: str) -> None:
        self._store = store
        self._bucket = bucket

    def find(self, key: str) -> ManifestWrite | None:
        """The manifest under `key`, or None. Raises StoreError, UnreadableObject."""
        return self._read(key, "found")

    def write(self, manifest: Manifest) -> ManifestWrite:
        """Write it under its own key unless one stands there already; returns the one that stands.

        Its images must be durable before. Raises StoreError, UnreadableObject.
        """
        key = manifest_key(
            manifest.bundle_id,
            manifest.document_id,
            manifest.submitted_sha256,
            manifest.policy_version,
        )
        body = canonical_json(manifest)
        sha256 = hashlib.sha256(body).hexdigest()
        outcome = self._store.put_if_absent(
            self._bucket, key, body, content_type=JSON, sha256=sha256
        )
        if outcome.kind is not PutKind.CONFLICT:
            return ManifestWrite(outcome.label, key, manifest, sha256, len(body))
        standing = self._read(key, PutKind.CONFLICT.value)
        if standing is None:
            raise StoreUnavailable(
                "put_if_absent",
                self._bucket,
                "a manifest was deleted while another was being written",
                kind="attempt",
            )
        return standing

    def _read(self, key: str, outcome: str) -> ManifestWrite | None:
        found = stored_models.load(self._store, self._bucket, key, Manifest, max_bytes=MAX_BYTES)
        if found is None:
            return None
        return ManifestWrite(outcome, key, found.model, found.sha256, found.bytes)
