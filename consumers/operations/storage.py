"""Long walks over a store: patient with passing failures, ahead with reads, bounded in memory."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from sinks.objectstore import AccessDenied, ListedObject, ObjectStore, StoreError

T = TypeVar("T")
R = TypeVar("R")

ATTEMPTS = 5
AHEAD_PER_THREAD = 4

Sleep = Callable[[float], None]


def patiently(fn: Callable[[], R], *, sleep: Sleep = time.sleep) -> R:
    """``fn()``, again after a pause (0.5 s, doubling) where the failure may pass.

    :raises StoreError: one that does not pass, or the last of `ATTEMPTS`.
    """
    attempt = 1
    while True:
        try:
            return fn()
        except StoreError as error:
            if attempt == ATTEMPTS or not _may_pass(error):
                raise
            sleep(0.25 * 2**attempt)
            attempt += 1


def _may_pass(error: StoreError) -> bool:
    return error.kind != "document" and not isinstance(error, AccessDenied)


def listed(
    store: ObjectStore,
    bucket: str,
    prefix: str = "",
    *,
    start_after: str | None = None,
    sleep: Sleep = time.sleep,
) -> Iterator[ListedObject]:
    """As `ObjectStore.list`; goes on after the last key where a page could not be had.

    :raises StoreError: as `patiently`.
    """
    last, failures = start_after, 0
    while True:
        try:
            for item in store.list(bucket, prefix, start_after=last):
                last, failures = item.key, 0
                yield item
            return
        except StoreError as error:
            failures += 1
            if failures == ATTEMPTS or not _may_pass(error):
                raise
            sleep(0.25 * 2**failures)


def read_ahead(
    items: Iterable[T], read: Callable[[T], R], *, threads: int
) -> Iterator[tuple[T, R]]:
    """Each item with what ``read`` gives for it, in order, a bounded number of reads ahead.

    With one thread everything happens in the caller's. What ``read`` raises is raised at its item.
    """
    if threads <= 1:
        for item in items:
            yield item, read(item)
        return
    waiting: deque[tuple[T, Future[R]]] = deque()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="read-ahead")
    try:
        for item in items:
            waiting.append((item, pool.submit(read, item)))
            if len(waiting) >= threads * AHEAD_PER_THREAD:
                ahead, future = waiting.popleft()
                yield ahead, future.result()
        while waiting:
            ahead, future = waiting.popleft()
            yield ahead, future.result()
    finally:
        pool.shutdown(cancel_futures=True)


class Pace:
    """At most ``per_second`` on average; the first goes at once."""

    def __init__(
        self,
        per_second: float,
        *,
        sleep: Sleep = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._interval = 1 / per_second
        self._sleep = sleep
        self._monotonic = monotonic
        self._next = monotonic()

    def wait(self, count: int) -> None:
        """Returns when ``count`` more may be done."""
        now = self._monotonic()
        if self._next > now:
            self._sleep(self._next - now)
        self._next = max(self._next, now) + count * self._interval
