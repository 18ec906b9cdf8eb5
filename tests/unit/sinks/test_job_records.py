"""The job record store, on a store in memory that fails as told."""

from __future__ import annotations

import pytest

from schemas.identity import job_record_key
from schemas.job_record import JobPhase, JobRecord, JobShard
from schemas.manifest import ManifestSegment
from sinks.job_records import JobRecordStore
from sinks.objectstore import (
    AmbiguousWrite,
    BucketNotFound,
    MemoryStore,
    ObjectNotFound,
    PreconditionFailed,
)
from sinks.stored_models import UnreadableObject
from tests.store_fakes import FaultyStore, StoreFault

ID = "5c7f2c8e-7f0a-5d0e-8f43-2f1f3f2a9c11"


def record(owner: str = "worker-a", submits: int = 0) -> JobRecord:
    return JobRecord(
        extraction_id=ID,
        bundle_id="b1",
        operation="received",
        document_id="d1",
        policy_version="p-1",
        provider="self-hosted",
        segments=(ManifestSegment(bucket="in", key="a/b.pdf", sha256="a" * 64, bytes=10),),
        submitted_sha256="a" * 64,
        submitted_bytes=10,
        pages=1,
        page_map=((1, 1, 1),),
        created_at="2026-01-01T00:00:00Z",
        updated_at="2026-01-01T00:00:00Z",
        owner=owner,
        shards=(JobShard(first_page=1, last_page=1, job_key=ID, submits=submits),),
        manifest_key="b1/d1/x/manifest.json",
    )


@pytest.fixture
def store() -> FaultyStore:
    store = FaultyStore()
    store.ensure_bucket("output")
    return store


@pytest.fixture
def records(store: FaultyStore) -> JobRecordStore:
    return JobRecordStore(store, "output")


def test_a_created_record_is_found_again_with_its_version(records: JobRecordStore) -> None:
    assert records.load(ID) is None
    stored, etag, created = records.create(record())
    assert (stored, created) == (record(), True)
    assert records.load(ID) == (record(), etag)


def test_the_second_worker_gets_the_record_of_the_first(records: JobRecordStore) -> None:
    _, etag, _ = records.create(record("worker-a"))
    stored, found_etag, created = records.create(record("worker-b"))
    assert (stored.owner, found_etag, created) == ("worker-a", etag, False)


def test_a_lost_answer_is_still_a_record_that_this_call_created(
    store: FaultyStore, records: JobRecordStore
) -> None:
    store.script.add("put_if_absent", StoreFault.STORED_THEN_503)
    assert records.create(record()).created


def test_of_two_equal_creates_only_one_believes_to_be_the_first(records: JobRecordStore) -> None:
    assert [records.create(record()).created for _ in range(2)] == [True, False]


def test_a_record_whose_creation_stayed_unknown_is_treated_as_somebody_elses(
    store: FaultyStore, records: JobRecordStore
) -> None:
    store.script.add("put_if_absent", StoreFault.STORED_THEN_503)
    store.script.add("head", StoreFault.UNAVAILABLE_503)
    with pytest.raises(AmbiguousWrite):
        records.create(record())
    assert records.create(record()).created is False


def test_an_update_replaces_the_version_that_was_read_and_no_other(
    records: JobRecordStore,
) -> None:
    first = records.create(record()).etag
    second = records.update(record(submits=1), first)
    with pytest.raises(PreconditionFailed):
        records.update(record("worker-b", submits=1), first)
    assert records.load(ID) == (record(submits=1), second)


def test_a_repeated_update_finds_its_own_write(records: JobRecordStore) -> None:
    first = records.create(record()).etag
    second = records.update(record(submits=1), first)
    assert records.update(record(submits=1), first) == second


def test_an_update_of_a_deleted_record_does_not_bring_it_back(
    store: MemoryStore, records: JobRecordStore
) -> None:
    etag = records.create(record()).etag
    store.delete("output", job_record_key(ID))
    with pytest.raises(ObjectNotFound):
        records.update(record(submits=1), etag)
    assert records.load(ID) is None


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"not json", b'{"schema_version":2}', b"\xff" * 10, b"[]"]
)
def test_a_damaged_record_is_named_and_never_overwritten(
    store: MemoryStore, records: JobRecordStore, body: bytes
) -> None:
    store.put("output", job_record_key(ID), body, content_type="application/json")
    for call in (lambda: records.load(ID), lambda: records.create(record())):
        with pytest.raises(UnreadableObject) as caught:
            call()
        assert caught.value.kind == "document"
        assert caught.value.__cause__ is None
    assert store.get("output", job_record_key(ID), max_bytes=100).body == body


def test_a_record_of_another_extraction_under_this_key_is_not_taken(
    store: MemoryStore, records: JobRecordStore
) -> None:
    other = record().model_copy(update={"extraction_id": "another"})
    records.create(other)
    body = store.get("output", job_record_key("another"), max_bytes=10_000).body
    store.put("output", job_record_key(ID), body, content_type="application/json")
    with pytest.raises(UnreadableObject):
        records.load(ID)


def test_a_missing_output_bucket_is_no_documents_fault() -> None:
    records = JobRecordStore(MemoryStore(), "missing")
    for call in (lambda: records.load(ID), lambda: records.create(record())):
        with pytest.raises(BucketNotFound) as caught:
            call()
        assert caught.value.kind == "systemic"


def test_phases_survive_the_store(records: JobRecordStore) -> None:
    shard = JobShard(
        first_page=1, last_page=1, job_key=ID, phase=JobPhase.SUBMITTED, job_id="job-1", submits=1
    )
    etag = records.create(record()).etag
    records.update(record().model_copy(update={"shards": (shard,)}), etag)
    loaded = records.load(ID)
    assert loaded is not None
    assert loaded.record.shards == (shard,)
