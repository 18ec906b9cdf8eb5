"""The object store contract on a real S3 server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from sinks.objectstore import (
    AccessDenied,
    ObjectStore,
    PreconditionFailed,
    PutKind,
    S3Settings,
    S3Store,
    StoreUnavailable,
)
from tests.servers import S3, MakeBucket
from tests.unit.sinks.objectstore_contract import TEXT, ObjectStoreContract

pytestmark = pytest.mark.integration


def settings(s3: S3, **changes: str) -> S3Settings:
    return S3Settings(
        s3.endpoint,
        changes.get("access_key", s3.access_key),
        changes.get("secret_key", s3.secret_key),
    )


@pytest.fixture
def store(s3: S3) -> Iterator[S3Store]:
    store = S3Store(settings(s3))
    yield store
    store.close()


@pytest.fixture
def bucket(make_bucket: MakeBucket) -> str:
    return make_bucket("store")


class TestS3StoreOnARealServer(ObjectStoreContract):
    @pytest.fixture
    def store(self, s3: S3) -> Iterator[ObjectStore]:
        store = S3Store(settings(s3))
        yield store
        store.close()

    @pytest.fixture
    def bucket(self, make_bucket: MakeBucket) -> str:
        return make_bucket("contract")


def test_of_racing_creates_exactly_one_wins_and_all_others_are_told(
    store: S3Store, bucket: str
) -> None:
    racers = 6
    for number in range(3):
        start = threading.Barrier(racers)

        def create(
            racer: int, key: str = f"race-{number}", start: threading.Barrier = start
        ) -> PutKind:
            start.wait()
            body = f"racer {racer}".encode()
            return store.put_if_absent(bucket, key, body, content_type=TEXT).kind

        with ThreadPoolExecutor(racers) as threads:
            kinds = list(threads.map(create, range(racers)))
        assert sorted(kinds) == [PutKind.CONFLICT] * (racers - 1) + [PutKind.CREATED]
        stored = store.get(bucket, f"race-{number}", max_bytes=100).body
        assert stored == f"racer {kinds.index(PutKind.CREATED)}".encode()


def test_of_racing_replaces_of_one_version_exactly_one_wins(store: S3Store, bucket: str) -> None:
    etag = store.put_if_absent(bucket, "record", b"first", content_type=TEXT).etag
    racers = 4
    start = threading.Barrier(racers)

    def replace(racer: int) -> bool:
        start.wait()
        try:
            body = f"racer {racer}".encode()
            store.replace_if_match(bucket, "record", body, etag=etag, content_type=TEXT)
        except PreconditionFailed:
            return False
        return True

    with ThreadPoolExecutor(racers) as threads:
        won = list(threads.map(replace, range(racers)))
    assert sum(won) == 1
    stored = store.get(bucket, "record", max_bytes=100).body
    assert stored == f"racer {won.index(True)}".encode()


@pytest.mark.parametrize("wrong", [{"access_key": "unknown"}, {"secret_key": "not-the-secret"}])
def test_wrong_credentials_are_named_as_such(s3: S3, bucket: str, wrong: dict[str, str]) -> None:
    store = S3Store(settings(s3, **wrong))
    with pytest.raises(AccessDenied) as caught:
        store.get(bucket, "key", max_bytes=10)
    assert caught.value.credentials_rejected
    with pytest.raises(AccessDenied):
        store.put_if_absent(bucket, "key", b"x", content_type=TEXT)


def test_many_threads_share_the_connections(store: S3Store, bucket: str) -> None:
    def round_trip(number: int) -> bytes:
        key, body = f"k/{number}", f"body {number}".encode()
        store.put_if_absent(bucket, key, body, content_type=TEXT)
        return store.get(bucket, key, max_bytes=100).body

    with ThreadPoolExecutor(16) as threads:
        bodies = list(threads.map(round_trip, range(200)))
    assert bodies == [f"body {number}".encode() for number in range(200)]


def test_speaking_tls_to_a_server_without_is_an_outage_not_a_crash(s3: S3) -> None:
    store = S3Store(S3Settings(f"https://{s3.address}", "access", "secret"))
    with pytest.raises(StoreUnavailable):
        store.get("bucket", "key", max_bytes=10)
