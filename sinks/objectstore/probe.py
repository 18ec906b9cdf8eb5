"""Start-up probe: does this store really keep the conditions that everything else rests on?

Stores are known that ignore `If-None-Match`, that let every racer win, or that create an object
on an `If-Match` of a missing one. Running on one of those would lose records silently, so the
worker refuses to start instead.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from sinks.objectstore.errors import ObjectNotFound, PreconditionFailed, StoreError
from sinks.objectstore.protocol import ObjectStore, PutKind

PROBE_PREFIX = "_probe/"
"""Reserved: no bundle id starts with it. Safe to expire by a life-cycle rule."""

_CONTENT_TYPE = "text/plain"
_REMEDY = (
    "Use a store with conditional writes: AWS S3, a current SeaweedFS (4.48 is tested) or "
    "MinIO from 2025-09-06."
)


class UnsafeStore(Exception):
    """The store does not keep a condition; the message says which one and what to use instead."""

    def __init__(self, bucket: str, ignored: str) -> None:
        super().__init__(
            f"The object store behind bucket {bucket[:63]!r} is not safe to use: {ignored}."
            f" {_REMEDY}"
        )


def probe(
    store: ObjectStore,
    bucket: str,
    *,
    racers: int = 4,
    rounds: int = 2,
    new_name: Callable[[], str] = lambda: uuid.uuid4().hex,
) -> None:
    """Check creates, replaces and races in `bucket`; what it wrote is removed again.

    `racers` threads create the same key at once, `rounds` times; 1 or 0 racers skip the race (for
    a store that is not for several threads). SeaweedFS makes racers wait a second for each other,
    hence the small numbers. Raises UnsafeStore, StoreError (try again later).
    """
    written: list[str] = []

    def key() -> str:
        written.append(f"{PROBE_PREFIX}{new_name()}")
        return written[-1]

    try:
        _check_create(store, bucket, key())
        _check_replace(store, bucket, key())
        _check_replace_of_missing(store, bucket, key())
        for _ in range(rounds if racers > 1 else 0):
            _check_race(store, bucket, key(), racers)
    finally:
        _clean_up(store, bucket, written)


def _check_create(store: ObjectStore, bucket: str, key: str) -> None:
    first = store.put_if_absent(bucket, key, b"first", content_type=_CONTENT_TYPE)
    if first.kind is PutKind.CONFLICT:
        raise UnsafeStore(bucket, "it refused If-None-Match: * for a key that had never existed")
    second = store.put_if_absent(bucket, key, b"second", content_type=_CONTENT_TYPE)
    if second.kind is not PutKind.CONFLICT or _read(store, bucket, key) != b"first":
        raise UnsafeStore(bucket, "it ignores If-None-Match: * and overwrote an existing object")


def _check_replace(store: ObjectStore, bucket: str, key: str) -> None:
    etag = store.put(bucket, key, b"version 1", content_type=_CONTENT_TYPE)
    try:
        store.replace_if_match(bucket, key, b"version 2", etag=etag, content_type=_CONTENT_TYPE)
    except PreconditionFailed:
        raise UnsafeStore(bucket, "it refused If-Match with the object's current ETag") from None
    if _read(store, bucket, key) != b"version 2":
        raise UnsafeStore(bucket, "it acknowledged a replacement (If-Match) and did not store it")
    try:
        store.replace_if_match(bucket, key, b"version 3", etag=etag, content_type=_CONTENT_TYPE)
    except PreconditionFailed:
        return
    raise UnsafeStore(bucket, "it ignores If-Match and replaced an object with another ETag")


def _check_replace_of_missing(store: ObjectStore, bucket: str, key: str) -> None:
    try:
        store.replace_if_match(
            bucket, key, b"no", etag="0123456789abcdef0123456789abcdef", content_type=_CONTENT_TYPE
        )
    except (ObjectNotFound, PreconditionFailed):
        return
    raise UnsafeStore(bucket, "it ignores If-Match on a missing object and created one")


def _check_race(store: ObjectStore, bucket: str, key: str, racers: int) -> None:
    bodies = [f"racer {number}".encode() for number in range(racers)]
    start = threading.Barrier(racers)

    def create(body: bytes) -> PutKind:
        start.wait()
        return store.put_if_absent(bucket, key, body, content_type=_CONTENT_TYPE).kind

    with ThreadPoolExecutor(racers, thread_name_prefix="store-probe") as threads:
        kinds = list(threads.map(create, bodies))
    # A lost answer makes a winner IDENTICAL.
    winners = [body for body, kind in zip(bodies, kinds, strict=True) if kind != PutKind.CONFLICT]
    if len(winners) != 1:
        raise UnsafeStore(
            bucket,
            f"{len(winners)} of {racers} simultaneous If-None-Match: * creates of a key succeeded",
        )
    if _read(store, bucket, key) != winners[0]:
        raise UnsafeStore(
            bucket, "the object is not the one whose If-None-Match: * create it confirmed"
        )


def _read(store: ObjectStore, bucket: str, key: str) -> bytes:
    return store.get(bucket, key, max_bytes=1024).body


def _clean_up(store: ObjectStore, bucket: str, keys: list[str]) -> None:
    for key in keys:
        try:
            store.delete(bucket, key)
        except StoreError:
            return  # what the probe found matters more; the prefix is reserved
