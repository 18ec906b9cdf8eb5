"""Manifests and images, on a store in memory that fails as told."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from schemas.canonical import canonical_json
from schemas.manifest import Manifest, ManifestJob, ManifestSegment
from sinks.images import ImageConflict, ImageStore
from sinks.manifests import ManifestStore
from sinks.objectstore import BucketNotFound, MemoryStore, StoreUnavailable
from sinks.stored_models import UnreadableObject
from tests.store_fakes import FaultyStore, StoreFault

KEY = f"b1/d1/{'a' * 64}-p-1/manifest.json"


def manifest(job_id: str = "job-1") -> Manifest:
    return Manifest(
        extraction_id="5c7f2c8e-7f0a-5d0e-8f43-2f1f3f2a9c11",
        bundle_id="b1",
        operation="received",
        document_id="d1",
        segments=(ManifestSegment(bucket="in", key="a.pdf", sha256="a" * 64, bytes=10),),
        submitted_sha256="a" * 64,
        submitted_bytes=10,
        pages=1,
        policy_version="p-1",
        provider="self-hosted",
        jobs=(
            ManifestJob(
                job_id=job_id,
                idempotency_key="k",
                first_page=1,
                last_page=1,
                submits=1,
                accepted_at="2026-01-01T00:00:00Z",
            ),
        ),
        submits=1,
        extracted_at="2026-01-01T00:00:10Z",
        images=(),
    )


@pytest.fixture
def store() -> FaultyStore:
    store = FaultyStore()
    store.ensure_bucket("output")
    return store


@pytest.fixture
def manifests(store: FaultyStore) -> ManifestStore:
    return ManifestStore(store, "output")


def test_a_manifest_is_stored_as_its_canonical_bytes_and_found_by_its_key(
    store: FaultyStore, manifests: ManifestStore
) -> None:
    assert manifests.find(KEY) is None
    write = manifests.write(manifest())
    body = store.get("output", KEY, max_bytes=100_000).body
    assert body == canonical_json(manifest())
    assert (write.outcome, write.key, write.manifest) == ("created", KEY, manifest())
    assert (write.sha256, write.bytes) == (hashlib.sha256(body).hexdigest(), len(body))
    found = manifests.find(KEY)
    assert found is not None
    assert (found.outcome, found.manifest, found.sha256) == ("found", manifest(), write.sha256)


def test_a_manifest_without_anything_special_has_the_bytes_that_it_always_had() -> None:
    """A worker of any version that writes it again writes it alike."""
    assert hashlib.sha256(canonical_json(manifest())).hexdigest() == (
        "7b95e655b5233d4b782ea0bf2e73cef93b48af672231f9242e8f6e51e8dccf15"
    )


def test_writing_the_same_manifest_again_is_identical(manifests: ManifestStore) -> None:
    first, second = manifests.write(manifest()), manifests.write(manifest())
    assert (second.outcome, second.sha256) == ("identical", first.sha256)


def test_the_loser_of_a_race_gets_the_winners_manifest(manifests: ManifestStore) -> None:
    winner = manifests.write(manifest("job-1"))
    loser = manifests.write(manifest("job-2"))
    assert loser.outcome == "conflict"
    assert loser.manifest == manifest("job-1")
    assert (loser.sha256, loser.bytes) == (winner.sha256, winner.bytes)


def test_a_lost_answer_is_resolved_and_shown(store: FaultyStore, manifests: ManifestStore) -> None:
    store.script.add("put_if_absent", StoreFault.STORED_THEN_DROPPED)
    assert manifests.write(manifest()).outcome == "ambiguous_resolved"


def test_a_winner_that_vanishes_before_it_is_read_means_trying_again(
    store: FaultyStore, manifests: ManifestStore
) -> None:
    manifests.write(manifest("job-1"))

    def vanish(operation: str, bucket: str, key: str) -> None:
        if operation == "get":
            store._buckets["output"].clear()

    store.script.decide = vanish
    with pytest.raises(StoreUnavailable) as caught:
        manifests.write(manifest("job-2"))
    assert caught.value.kind == "attempt"


def test_a_damaged_manifest_is_named_and_never_overwritten(
    store: FaultyStore, manifests: ManifestStore
) -> None:
    store.put("output", KEY, b"{}", content_type="application/json")
    with pytest.raises(UnreadableObject):
        manifests.find(KEY)
    with pytest.raises(UnreadableObject):
        manifests.write(manifest())
    assert store.get("output", KEY, max_bytes=10).body == b"{}"


def test_a_missing_output_bucket_is_no_documents_fault() -> None:
    manifests = ManifestStore(MemoryStore(), "missing")
    calls: list[Callable[[], object]] = [
        lambda: manifests.find(KEY),
        lambda: manifests.write(manifest()),
    ]
    for call in calls:
        with pytest.raises(BucketNotFound) as caught:
            call()
        assert caught.value.kind == "systemic"


class TestImages:
    @pytest.fixture
    def image(self, tmp_path: Path) -> Path:
        path = tmp_path / "image"
        path.write_bytes(b"\x89PNG image bytes")
        return path

    def test_the_key_carries_name_and_content(self, store: FaultyStore, image: Path) -> None:
        sha256 = hashlib.sha256(image.read_bytes()).hexdigest()
        key = ImageStore(store, "output").write(
            "b1/d1/x", "page-001-image-001", image, sha256, "image/png"
        )
        assert key == f"b1/d1/x/images/page-001-image-001-{sha256[:16]}.png"
        stored = store.get("output", key, max_bytes=100)
        assert (stored.body, stored.content_type) == (image.read_bytes(), "image/png")

    def test_writing_it_again_is_a_success(self, store: FaultyStore, image: Path) -> None:
        images = ImageStore(store, "output")
        sha256 = hashlib.sha256(image.read_bytes()).hexdigest()
        keys = {images.write("p", "name", image, sha256, "image/png") for _ in range(2)}
        assert len(keys) == 1

    def test_other_content_gets_another_key(self, store: FaultyStore, image: Path) -> None:
        images = ImageStore(store, "output")
        first = images.write(
            "p", "name", image, hashlib.sha256(image.read_bytes()).hexdigest(), "image/png"
        )
        image.write_bytes(b"other bytes")
        second = images.write(
            "p", "name", image, hashlib.sha256(b"other bytes").hexdigest(), "image/png"
        )
        assert first != second
        assert store.get("output", first, max_bytes=100).body == b"\x89PNG image bytes"

    def test_damaged_bytes_under_the_key_are_reported_and_kept(
        self, store: FaultyStore, image: Path
    ) -> None:
        images = ImageStore(store, "output")
        sha256 = hashlib.sha256(image.read_bytes()).hexdigest()
        key = images.write("p", "name", image, sha256, "image/png")
        store.put("output", key, b"damaged", content_type="image/png")
        with pytest.raises(ImageConflict):
            images.write("p", "name", image, sha256, "image/png")
        assert store.get("output", key, max_bytes=100).body == b"damaged"
