"""An object store that fails as told, for simulation and for tests of what stands on it.

Faults are injected per *request* (a PUT, a GET, a HEAD), below the logic that resolves lost
answers, so that logic runs as it does against a real store.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import TypeVar

from sinks.objectstore import (
    AccessDenied,
    MemoryStore,
    PreconditionFailed,
    StoreThrottled,
    StoreUnavailable,
)
from sinks.objectstore.conditional import NotSent, WriteRaced

T = TypeVar("T")


class StoreFault(Enum):
    """What goes wrong with one request, and whether the store acted before it did."""

    REFUSED_CONNECTION = "never sent"
    TIMEOUT_BEFORE_EFFECT = "sent, lost, no effect"
    STORED_THEN_503 = "took effect, then 503"
    STORED_THEN_DROPPED = "took effect, then the connection broke"
    CONFLICT_409 = "409, no effect"
    SPURIOUS_412 = "412 about nothing, no effect"
    UNAVAILABLE_503 = "503, no effect"
    THROTTLED_503 = "503 SlowDown, no effect"
    ACCESS_DENIED = "403"
    SLOW = "takes effect after `slow_seconds` of virtual time"


CONDITIONAL_ONLY = frozenset({StoreFault.CONFLICT_409, StoreFault.SPURIOUS_412})
"""Answers that only a conditional write gets; drawn for another request, they do nothing."""

CONDITIONAL_OPERATIONS = frozenset({"put_if_absent", "replace_if_match"})


@dataclass
class FaultScript:
    """Decides the fault of each request; None lets it through.

    `add` queues faults for the next requests of one operation (get, head, put, put_if_absent,
    replace_if_match, delete, list, bucket), None letting one through; `decide` is asked when
    nothing is queued (random faults of a simulation).
    """

    decide: Callable[[str, str, str], StoreFault | None] = lambda operation, bucket, key: None
    _queued: dict[str, deque[StoreFault | None]] = field(default_factory=dict)

    def add(self, operation: str, *faults: StoreFault | None) -> FaultScript:
        self._queued.setdefault(operation, deque()).extend(faults)
        return self

    def next(self, operation: str, bucket: str, key: str) -> StoreFault | None:
        queue = self._queued.get(operation)
        if queue:
            return queue.popleft()
        return self.decide(operation, bucket, key)


class FaultyStore(MemoryStore):
    """A memory store whose requests fail by `script`; `sleep` gets the seconds of SLOW ones.

    `requests` counts what was really asked, by operation.
    """

    def __init__(
        self,
        script: FaultScript | None = None,
        *,
        sleep: Callable[[float], None] = lambda seconds: None,
        slow_seconds: float = 5.0,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        super().__init__(now=now)
        self.script = script or FaultScript()
        self.requests: dict[str, int] = {}
        self._sleep = sleep
        self._slow_seconds = slow_seconds

    def _request(self, operation: str, bucket: str, key: str, effect: Callable[[], T]) -> T:
        self.requests[operation] = self.requests.get(operation, 0) + 1
        fault = self.script.next(operation, bucket, key)
        if fault in CONDITIONAL_ONLY and operation not in CONDITIONAL_OPERATIONS:
            fault = None
        match fault:
            case None:
                return effect()
            case StoreFault.SLOW:
                self._sleep(self._slow_seconds)
                return effect()
            case StoreFault.REFUSED_CONNECTION:
                raise NotSent(operation, bucket, "connection refused")
            case StoreFault.TIMEOUT_BEFORE_EFFECT:
                raise StoreUnavailable(operation, bucket, "timed out")
            case StoreFault.UNAVAILABLE_503:
                raise StoreUnavailable(operation, bucket, "HTTP 503")
            case StoreFault.THROTTLED_503:
                raise StoreThrottled(operation, bucket, "HTTP 503", retry_after=1.0)
            case StoreFault.ACCESS_DENIED:
                raise AccessDenied(operation, bucket, "HTTP 403")
            case StoreFault.STORED_THEN_503:
                effect()
                raise StoreUnavailable(operation, bucket, "HTTP 503")
            case StoreFault.STORED_THEN_DROPPED:
                effect()
                raise StoreUnavailable(operation, bucket, "connection lost")
            case StoreFault.CONFLICT_409:
                raise WriteRaced
            case StoreFault.SPURIOUS_412:
                raise PreconditionFailed(operation, bucket)
