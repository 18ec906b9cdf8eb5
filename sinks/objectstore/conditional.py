"""Conditional writes that end in a known outcome, however the store answers.

A conditional write is never simply sent again after a lost answer: the first one may have
succeeded, and the second would then be told 412 about its own success. Instead the stored
object is read and compared. The rules, per answer to one PUT:

* 412: someone wrote. Equal bytes are a success, others a conflict; nothing there means the
  winner was deleted or the answer was wrong: try again, a bounded number of times.
* 409 (AWS `ConditionalRequestConflict`, also the loser's answer on some stores): a racing write
  is under way and may yet fail. Look first; if nothing is there, try again, bounded. Taking 409
  as "exists" loses the write of everybody when the racing one fails.
* no answer, 5xx, 429/503: unknown. Look: equal is success; absent is reported as the original
  failure and the caller retries.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from sinks.objectstore.errors import (
    AmbiguousWrite,
    ErrorKind,
    ObjectNotFound,
    PreconditionFailed,
    StoreError,
    StoreThrottled,
    StoreUnavailable,
)
from sinks.objectstore.protocol import PutKind, PutOutcome

MAX_ATTEMPTS = 5
"""PUTs per conditional write when the store keeps answering 409, or 412 about nothing."""


class WriteRaced(Exception):
    """The store answered 409: another conditional write of this key is under way."""


class NotSent(StoreUnavailable):
    """The request never left: the store cannot have acted on it."""


@dataclass(frozen=True, slots=True)
class Found:
    """What is stored under the key now, compared with what was to be written."""

    etag: str
    identical: bool


class ConditionalRequest(Protocol):
    """One conditional write of one body, as the two requests it is made of."""

    operation: str
    bucket: str

    def send(self) -> str:
        """PUT once; returns the ETag. Raises PreconditionFailed (412), WriteRaced (409),
        NotSent, other StoreError."""
        ...

    def look(self) -> Found | None:
        """Read what is stored now; None if nothing is. Raises StoreError."""
        ...


def create(request: ConditionalRequest, *, pause: Callable[[int], None]) -> PutOutcome:
    """Carry a create-if-absent to a known outcome; `pause(n)` waits before attempt n (1, 2, ..).

    Raises AmbiguousWrite, StoreThrottled, StoreUnavailable and what `send` refuses with.
    """
    for attempt in range(MAX_ATTEMPTS):
        if attempt:
            pause(attempt)
        try:
            return PutOutcome(PutKind.CREATED, request.send())
        except (PreconditionFailed, WriteRaced):
            found = request.look()
            lost_answer = False
        except NotSent:
            raise
        except (StoreUnavailable, StoreThrottled) as failure:
            found = _look_after_lost_answer(request)
            if found is None:
                raise failure
            lost_answer = True
        if found is not None:
            kind = PutKind.IDENTICAL if found.identical else PutKind.CONFLICT
            return PutOutcome(kind, found.etag, resolved_ambiguity=lost_answer)
    raise _kept_colliding(request)


def replace(request: ConditionalRequest, *, etag: str, pause: Callable[[int], None]) -> str:
    """Carry a replace-if-match of version `etag` to a known outcome; returns the new ETag.

    Raises PreconditionFailed, ObjectNotFound, AmbiguousWrite, StoreThrottled, StoreUnavailable.
    """
    for attempt in range(MAX_ATTEMPTS):
        if attempt:
            pause(attempt)
        try:
            return request.send()
        except (PreconditionFailed, WriteRaced) as refusal:
            found = request.look()
            unchanged: StoreError | None = None
            raced = isinstance(refusal, WriteRaced)
        except NotSent:
            raise
        except (StoreUnavailable, StoreThrottled) as failure:
            found = _look_after_lost_answer(request)
            unchanged = failure
            raced = False
        if found is None:
            raise ObjectNotFound(request.operation, request.bucket)
        if found.identical:
            return found.etag
        if found.etag != etag:
            raise PreconditionFailed(request.operation, request.bucket)
        if unchanged is not None:
            raise unchanged
        if not raced and attempt + 1 == MAX_ATTEMPTS:
            # The store insists on 412 for the very version it shows us.
            raise PreconditionFailed(request.operation, request.bucket)
    raise _kept_colliding(request)


def _look_after_lost_answer(request: ConditionalRequest) -> Found | None:
    try:
        return request.look()
    except StoreError as unreadable:
        # Two failures in a row: an outage if the second one says so.
        kind: ErrorKind | None = "systemic" if unreadable.kind == "systemic" else None
        raise AmbiguousWrite(request.operation, request.bucket, kind=kind) from unreadable


def _kept_colliding(request: ConditionalRequest) -> StoreError:
    return StoreUnavailable(
        request.operation,
        request.bucket,
        f"{MAX_ATTEMPTS} conditional writes collided and none of them is stored",
        kind="attempt",
    )
