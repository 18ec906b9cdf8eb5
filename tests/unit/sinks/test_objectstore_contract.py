"""The contract suite on the stores that need no server of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sinks.objectstore import MemoryStore, ObjectStore, S3Settings, S3Store
from tests.store_fakes import FaultyStore
from tests.unit.sinks.lying_s3 import LyingS3
from tests.unit.sinks.objectstore_contract import ObjectStoreContract


class TestMemoryStore(ObjectStoreContract):
    racers = 1

    @pytest.fixture
    def store(self) -> ObjectStore:
        return MemoryStore()

    @pytest.fixture
    def bucket(self, store: ObjectStore) -> str:
        store.ensure_bucket("bucket")
        return "bucket"


class TestFaultyStoreWithoutFaults(TestMemoryStore):
    @pytest.fixture
    def store(self) -> ObjectStore:
        return FaultyStore()


class TestS3StoreOnASmallServer(ObjectStoreContract):
    @pytest.fixture
    def store(self) -> Iterator[ObjectStore]:
        with LyingS3() as server:
            store = S3Store(S3Settings(server.endpoint_url, "key", "secret"))
            yield store
            store.close()

    @pytest.fixture
    def bucket(self, store: ObjectStore) -> str:
        store.ensure_bucket("bucket")
        return "bucket"


class TestS3StoreOnAServerThatDropsMetadata(TestS3StoreOnASmallServer):
    """Comparing then means reading the object back."""

    @pytest.fixture
    def store(self) -> Iterator[ObjectStore]:
        with LyingS3() as server:
            server.keeps_metadata = False
            store = S3Store(S3Settings(server.endpoint_url, "key", "secret"))
            yield store
            store.close()

    def test_head_tells_size_checksum_and_etag(self, store: ObjectStore, bucket: str) -> None:
        store.put(bucket, "doc", b"hello", content_type="application/pdf")
        assert store.head(bucket, "doc").sha256 is None
