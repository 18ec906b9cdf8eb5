"""The scripted faults of the simulation do to the store what a real one would do."""

from __future__ import annotations

import random

import pytest

from sinks.objectstore import (
    AccessDenied,
    AmbiguousWrite,
    PreconditionFailed,
    PutKind,
    StoreError,
    StoreThrottled,
    StoreUnavailable,
)
from tests.store_fakes import FaultScript, FaultyStore, StoreFault

TEXT = "text/plain"


def store_with(*faults: StoreFault | None, on: str = "put_if_absent") -> FaultyStore:
    store = FaultyStore(FaultScript().add(on, *faults))
    store.ensure_bucket("bucket")
    return store


@pytest.mark.parametrize("fault", [StoreFault.STORED_THEN_503, StoreFault.STORED_THEN_DROPPED])
def test_a_write_that_took_effect_is_resolved(fault: StoreFault) -> None:
    store = store_with(fault)
    outcome = store.put_if_absent("bucket", "key", b"mine", content_type=TEXT)
    assert (outcome.kind, outcome.resolved_ambiguity) == (PutKind.IDENTICAL, True)
    assert store.requests["put_if_absent"] == 1


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (StoreFault.REFUSED_CONNECTION, StoreUnavailable),
        (StoreFault.TIMEOUT_BEFORE_EFFECT, StoreUnavailable),
        (StoreFault.UNAVAILABLE_503, StoreUnavailable),
        (StoreFault.THROTTLED_503, StoreThrottled),
        (StoreFault.ACCESS_DENIED, AccessDenied),
    ],
)
def test_a_write_without_effect_raises_and_can_be_repeated(
    fault: StoreFault, error: type[StoreError]
) -> None:
    store = store_with(fault)
    with pytest.raises(error):
        store.put_if_absent("bucket", "key", b"mine", content_type=TEXT)
    outcome = store.put_if_absent("bucket", "key", b"mine", content_type=TEXT)
    assert outcome.kind is PutKind.CREATED


def test_conflicts_and_spurious_412_are_retried_until_the_write_stands() -> None:
    store = store_with(StoreFault.CONFLICT_409, StoreFault.SPURIOUS_412)
    outcome = store.put_if_absent("bucket", "key", b"mine", content_type=TEXT)
    assert outcome.kind is PutKind.CREATED
    assert store.requests["put_if_absent"] == 3


def test_a_lost_answer_with_a_failing_read_is_ambiguous() -> None:
    store = store_with(StoreFault.STORED_THEN_503)
    store.script.add("head", StoreFault.UNAVAILABLE_503)
    with pytest.raises(AmbiguousWrite):
        store.put_if_absent("bucket", "key", b"mine", content_type=TEXT)


def test_a_slow_request_takes_virtual_time_only() -> None:
    slept: list[float] = []
    store = FaultyStore(
        FaultScript().add("get", StoreFault.SLOW), sleep=slept.append, slow_seconds=9.0
    )
    store.ensure_bucket("bucket")
    store.put("bucket", "key", b"x", content_type=TEXT)
    assert store.get("bucket", "key", max_bytes=1).body == b"x"
    assert slept == [9.0]


@pytest.mark.parametrize("seed", range(300))
def test_whatever_fails_a_created_object_is_never_overwritten_and_success_means_stored(
    seed: int,
) -> None:
    rng = random.Random(seed)
    faults: list[StoreFault | None] = [None, None, None, *StoreFault]
    calm = [False]
    script = FaultScript(lambda *request: None if calm[0] else rng.choice(faults))
    store = FaultyStore(script)
    store._buckets["bucket"] = {}
    first: bytes | None = None
    for number in range(12):
        body = f"writer {rng.randrange(3)}".encode()
        try:
            kind = store.put_if_absent("bucket", "key", body, content_type=TEXT).kind
        except StoreError:
            kind = None
        stored = store._buckets["bucket"].get("key")
        if first is not None:
            assert stored is not None
            assert stored.body == first, f"overwritten in step {number}"
        first = stored.body if stored else None
        if kind is PutKind.CONFLICT:
            assert first not in (None, body)
        elif kind is not None:
            assert first == body


@pytest.mark.parametrize("seed", range(300))
def test_whatever_fails_a_replace_that_succeeded_is_stored_and_one_refused_by_version_is_not(
    seed: int,
) -> None:
    rng = random.Random(seed)
    faults: list[StoreFault | None] = [None, None, None, *StoreFault]
    store = FaultyStore()
    store.ensure_bucket("bucket")
    etag = store.put_if_absent("bucket", "key", b"0", content_type=TEXT).etag
    store.script = FaultScript(lambda *request: rng.choice(faults))
    for number in range(1, 12):
        body = str(number).encode()
        before = store._buckets["bucket"]["key"]
        try:
            etag = store.replace_if_match("bucket", "key", body, etag=etag, content_type=TEXT)
        except PreconditionFailed:
            assert store._buckets["bucket"]["key"] == before
        except StoreError:
            continue
        else:
            now = store._buckets["bucket"]["key"]
            assert (now.body, now.etag) == (body, etag)
