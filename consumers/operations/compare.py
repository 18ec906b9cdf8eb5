"""The same documents through services in several ways of waiting, at the same concurrency.

``synchronous``: the caller asks without pause until the job ends, as a caller that waits for one
long request would: its thread does nothing else. That is a stand-in, said so in the report: the
services' own interfaces are asynchronous, so its polls are not told. ``polling``: with the
pauses of the policy. Both wait where the service throttles, and keep to its limit on polls.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from consumers.extraction.timestamps import parse_rfc3339
from consumers.operations.compare_calls import Calls
from consumers.providers.errors import ProviderError, SubmitUnknown
from consumers.providers.protocol import (
    Document,
    JobState,
    JobStatus,
    Provider,
    Submission,
    SubmitOptions,
)
from schemas.policy import Policy

SYNCHRONOUS_PAUSE_S = 0.05
Answer = TypeVar("Answer")
CAUSES = ("submit", "provider", "poll_lag", "images", "end_to_end")


@dataclass(slots=True)
class Extraction:
    """One document's way; seconds by cause."""

    seconds: dict[str, float] = field(default_factory=dict)
    polls: int = 0
    throttled: int = 0
    """Times that the service asked to wait."""
    images: int = 0
    bytes_submitted: int = 0
    """Of the document, with every try."""
    bytes_received: int = 0
    """Of the images."""
    pages_accepted: int = 0
    """Of the document, once the service has taken it: what it charges."""
    failure: str | None = None
    bytes_left: int | None = None
    """The service still keeps the job: of the document and the images received. None: it does
    not."""
    perhaps_left: bool = False
    """The submit's answer was lost: nobody knows whether there is a job."""


@dataclass(frozen=True, slots=True)
class Way:
    """A column of the comparison."""

    name: str
    provider: Provider
    policy: Policy
    synchronous: bool
    price_per_page: float | None = None
    polls_per_second: float | None = None
    """At most, by all threads together; None: what the service publishes."""


def documents_of(files: Iterable[Path]) -> list[Document]:
    """:raises ValueError: a file is no PDF that can be opened; the text names it."""
    import pikepdf

    found = []
    for file in files:
        try:
            with pikepdf.open(file) as pdf:
                pages = len(pdf.pages)
        except (pikepdf.PdfError, pikepdf.PasswordError, OSError) as error:
            raise ValueError(f"{file}: cannot be opened ({type(error).__name__})") from None
        body = file.read_bytes()
        found.append(Document(file, hashlib.sha256(body).hexdigest(), len(body), pages))
    return found


def compare(
    ways: Sequence[Way], documents: Sequence[Document], *, concurrency: int
) -> list[dict[str, Any]]:
    """One row per way, one way after the other."""
    rows = []
    for way in ways:
        calls = calls_of(way)
        with ThreadPoolExecutor(concurrency) as threads, tempfile.TemporaryDirectory() as folder:

            def one(
                numbered: tuple[int, Document],
                way: Way = way,
                calls: Calls = calls,
                folder: str = folder,
            ) -> Extraction:
                number, document = numbered
                directory = Path(folder, str(number))
                directory.mkdir()
                return extract(way, calls, document, directory)

            started = time.monotonic()
            done = list(threads.map(one, enumerate(documents)))
            seconds = time.monotonic() - started
        rows.append(row(way, done, seconds))
    return rows


def calls_of(way: Way) -> Calls:
    return Calls(way.policy, way.polls_per_second or way.provider.abilities.max_polls_per_second)


def extract(way: Way, calls: Calls, document: Document, directory: Path) -> Extraction:
    """Submitted under a key that nobody used before; a failure is part of the outcome. Each step
    waits for throttles up to the policy's deadline."""
    outcome, started = Extraction(), time.monotonic()
    job_id = None
    try:
        submission = _submit(way, calls, document, started, outcome)
        job_id, accepted = submission.job_id, time.monotonic()
        outcome.seconds["submit"] = accepted - started
        outcome.pages_accepted = document.pages
        status = submission.status or _wait(way, calls, document, job_id, accepted, outcome)
        _split(outcome, status, accepted)
        if submission.status is None and status.state is JobState.SUCCEEDED:
            # As a worker: how long the job ran, not when it was seen.
            calls.learn(outcome.seconds["provider"], document.pages)
        _fetch(way, calls, document, job_id, status, directory, outcome)
    except SubmitUnknown as error:
        outcome.failure, outcome.perhaps_left = error.code, True
    except ProviderError as error:
        outcome.failure = error.code
    except TimeoutError:
        outcome.failure = "deadline"
    outcome.seconds["end_to_end"] = time.monotonic() - started
    if job_id is not None:
        _forget(way, calls, document, job_id, outcome)
    return outcome


def _submit(
    way: Way, calls: Calls, document: Document, started: float, outcome: Extraction
) -> Submission:
    key = str(uuid.uuid4())
    options = SubmitOptions(way.policy.soft_masks, way.policy.repeat_drawings)

    def submit() -> Submission:
        outcome.bytes_submitted += document.bytes
        return way.provider.submit(document, key=key, options=options)

    return _made(way, calls, submit, started, outcome)


def _made(
    way: Way,
    calls: Calls,
    call: Callable[[], Answer],
    since: float,
    outcome: Extraction,
    *,
    is_poll: bool = False,
) -> Answer:
    def throttled() -> None:
        outcome.throttled += 1

    until = since + way.policy.polling.deadline_s
    return calls.make(call, until=until, throttled=throttled, is_poll=is_poll)


def _wait(
    way: Way,
    calls: Calls,
    document: Document,
    job_id: str,
    accepted: float,
    outcome: Extraction,
) -> JobStatus:
    """:raises TimeoutError: the policy's deadline came first."""
    hint: float | None = None
    while True:
        age = time.monotonic() - accepted
        delay = (
            SYNCHRONOUS_PAUSE_S
            if way.synchronous
            else calls.next_delay(age, outcome.polls, hint, document.pages)
        )
        calls.sleep(delay)
        status = _made(
            way, calls, partial(way.provider.poll, job_id), accepted, outcome, is_poll=True
        )
        outcome.polls += 1
        calls.asked(max(time.monotonic() - accepted - age - delay, 0.0))
        age = time.monotonic() - accepted
        if status.state is not JobState.RUNNING:
            return status
        hint = status.retry_after
        if age >= way.policy.polling.deadline_s:
            raise TimeoutError


def _split(outcome: Extraction, status: JobStatus, accepted: float) -> None:
    """Where the service does not say when it finished, all of the wait counts as its own."""
    waited = time.monotonic() - accepted
    finished = parse_rfc3339(status.finished_at) if status.finished_at else None
    lag = min(max(time.time() - finished, 0.0), waited) if finished is not None else 0.0
    outcome.seconds |= {"provider": waited - lag, "poll_lag": lag}


def _fetch(
    way: Way,
    calls: Calls,
    document: Document,
    job_id: str,
    status: JobStatus,
    directory: Path,
    outcome: Extraction,
) -> None:
    if status.state is JobState.FAILED:
        outcome.failure = status.failure_code or status.provider_status
        return
    started = time.monotonic()
    images = status.images
    if not status.images_listed:
        listing = partial(way.provider.images, job_id, document)
        images = _made(way, calls, listing, started, outcome)
    for number, image in enumerate(images):
        fetching = partial(
            way.provider.fetch_image,
            job_id,
            image,
            directory / f"{number}",
            max_bytes=way.policy.limits.max_image_bytes,
        )
        fetched = _made(way, calls, fetching, started, outcome)
        outcome.images += 1
        outcome.bytes_received += fetched.bytes
        fetched.path.unlink()
    outcome.seconds["images"] = time.monotonic() - started


def _forget(way: Way, calls: Calls, document: Document, job_id: str, outcome: Extraction) -> None:
    kept = document.bytes + outcome.bytes_received
    if not way.provider.abilities.forgets:
        outcome.bytes_left = kept
        return
    try:
        _made(way, calls, partial(way.provider.forget, job_id), time.monotonic(), outcome)
    except ProviderError:
        outcome.bytes_left = kept


def row(way: Way, done: Sequence[Extraction], seconds: float) -> dict[str, Any]:
    """Pure."""
    failures: dict[str, int] = {}
    for one in done:
        if one.failure is not None:
            failures[one.failure] = failures.get(one.failure, 0) + 1
    failed = sum(failures.values())
    left = [one.bytes_left for one in done if one.bytes_left is not None]
    perhaps = sum(one.perhaps_left for one in done)
    pages = sum(one.pages_accepted for one in done)
    return {
        "way": way.name,
        "documents": len(done),
        "documents_per_s": round((len(done) - failed) / seconds, 2) if seconds else 0.0,
        "seconds": {cause: _percentiles(done, cause) for cause in CAUSES},
        # Those of the synchronous way are the stand-in's own: one long request would have none.
        "polls": None if way.synchronous else sum(one.polls for one in done),
        "throttled": sum(one.throttled for one in done),
        "failures": failures,
        "images": sum(one.images for one in done),
        "bytes_submitted": sum(one.bytes_submitted for one in done),
        "bytes_received": sum(one.bytes_received for one in done),
        "jobs_left_at_service": len(left),
        "bytes_left_at_service": sum(left),
        "jobs_perhaps_left": perhaps,
        # What nobody does by himself here: send a failed document again, delete what is left, look
        # for what may be left.
        "manual_steps": failed + len(left) + perhaps,
        "cost": None if way.price_per_page is None else round(way.price_per_page * pages, 6),
    }


def _percentiles(done: Sequence[Extraction], cause: str) -> Mapping[str, float]:
    values = sorted(one.seconds[cause] for one in done if cause in one.seconds)
    if not values:
        return {}
    return {
        f"p{percent}": round(values[min(len(values) - 1, len(values) * percent // 100)], 4)
        for percent in (50, 95, 99)
    }
