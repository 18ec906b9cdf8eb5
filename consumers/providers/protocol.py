"""The one small protocol that the pipeline speaks with every remote extraction service.

Calls block (they run in a pool thread), make exactly one attempt each and never sleep: waiting,
retrying, gates and deadlines belong to the job's life-cycle, which sees errors by kind
(`consumers.providers.errors`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from schemas.problems import Problem


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a service can do; the life-cycle asks these instead of knowing names."""

    idempotent_submit: bool
    """The same key with the same bytes never starts (or bills) a second job."""
    gives_retry_hint: bool = False
    """Its throttles say how long to wait. Nothing else depends on it: a wait that is
    told is kept, one that is not is guessed."""
    long_poll_seconds: float = 0.0
    """> 0: `poll` may be answered late, up to this many seconds."""
    max_polls_per_second: float | None = None
    """What its published contract allows one account, all workers together; None: no limit."""
    max_pages_per_job: int | None = None
    max_bytes_per_job: int | None = None
    results_kept_seconds: float | None = None
    """A running job is asked about at least twice in this time, whatever else says to wait."""
    forgets: bool = False
    """`forget` really deletes the job and its results."""
    images_need_document: bool = False
    """`images` cuts regions out of the local document, so it must be present again."""
    reports_pages: bool = False
    """A finished job says how many pages it covered, which is checked against the local count; one
    that does not say is not taken for complete."""


@dataclass(frozen=True, slots=True)
class Document:
    """The private local copy that is submitted. ``sha256`` is of the bytes in ``path``."""

    path: Path
    sha256: str
    bytes: int
    pages: int


class JobState(StrEnum):
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


PAGE_NOT_TOLD = 0
"""`RemoteImage.page` where the service did not say: certain only for one-page documents."""


@dataclass(frozen=True, slots=True)
class RemoteImage:
    """One image of a finished job, not yet fetched: exactly one of ``url``, ``data``, ``ref``.

    ``page`` is 1-based in the submitted document, or `PAGE_NOT_TOLD`; ``order`` sorts the images of
    one page (the pipeline numbers them itself). ``url`` may be a bearer credential: never log it,
    never send credentials to it.
    """

    page: int
    order: int
    url: str | None = field(default=None, repr=False)
    data: bytes | None = field(default=None, repr=False)
    ref: str | None = field(default=None, repr=False)
    media_type: str | None = None
    sha256: str | None = None
    bytes: int | None = None
    is_mask: bool = False
    """The mask of another image, given as an image of its own (`SubmitOptions.soft_masks`)."""


@dataclass(frozen=True, slots=True)
class JobStatus:
    """What one answer said about a job.

    ``provider_status`` is the service's own word, or `unrecognised` where it may not be logged
    (`failures.bounded_code`); ``known`` is False for a word that the adapter does not know
    (counted, treated as running). ``retry_after`` is in seconds, unclamped. ``finished_at`` is RFC
    3339 UTC from the service's own record, or None. ``failure_code`` is a code of the same kind,
    never message text. ``failure_kind``: ``document`` (this document can never succeed),
    ``attempt`` (another job may) or ``systemic``.
    """

    state: JobState
    provider_status: str
    known: bool = True
    retry_after: float | None = None
    images: tuple[RemoteImage, ...] = field(default=(), repr=False)
    images_listed: bool = True
    """False: the images of a succeeded job need a second call, `Provider.images`."""
    pages: int | None = None
    finished_at: str | None = None
    failure_code: str | None = None
    failure_kind: str = "document"
    problems: tuple[Problem, ...] = ()
    """What a succeeded job could not give; pages are those of the submitted document."""


@dataclass(frozen=True, slots=True)
class Submission:
    """What a submit gave: a job id, and the finished status where the answer was synchronous."""

    job_id: str
    status: JobStatus | None = None
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class FetchedImage:
    """An image written to a private local file; ``sha256`` is of the bytes received."""

    path: Path
    bytes: int
    sha256: str
    media_type: str | None


@dataclass(frozen=True, slots=True)
class SubmitOptions:
    """What of the policy a service may need to know. All of it is part of the policy version, but
    for ``traceparent`` (W3C Trace Context, from the event), which changes nothing."""

    soft_masks: str = "composite"
    repeat_drawings: bool = False
    extra: tuple[tuple[str, str], ...] = ()
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
class Objection:
    """What speaks against using a service, as it was found at start: a sentence without secrets."""

    text: str
    forbids: bool = False
    """A rule is broken: no document may be sent there. Otherwise it may pass by itself."""


class Provider(Protocol):
    name: str
    abilities: Abilities

    def submit(self, document: Document, *, key: str, options: SubmitOptions) -> Submission:
        """Hand the document over under the idempotency ``key``."""
        ...

    def find(self, key: str) -> str | None:
        """The job id that an earlier submit under ``key`` made, where the service can tell (for
        example by a deterministic output prefix); None where it cannot."""
        ...

    def poll(self, job_id: str) -> JobStatus: ...

    def images(self, job_id: str, document: Document | None) -> tuple[RemoteImage, ...]:
        """The images of a succeeded job, for services that list them by a second call."""
        ...

    def fetch_image(
        self, job_id: str, image: RemoteImage, destination: Path, *, max_bytes: int
    ) -> FetchedImage:
        """Write one image to ``destination`` (created 0600)."""
        ...

    def forget(self, job_id: str) -> None:
        """Delete the job and its results; a job that is already gone is success."""
        ...

    def close(self) -> None: ...
