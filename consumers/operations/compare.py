"""The same documents through services in several ways of waiting, at the same concurrency.

``synchronous``: the caller asks without pause until the job ends, as a caller that waits for one
long request would: its thread does nothing else. That is a stand-in, said so in the report: the
services' own interfaces are asynchronous. ``polling``: with the pauses of the policy.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from consumers.extraction.polling import PollSchedule, schedule_for
from consumers.extraction.timestamps import parse_rfc3339
from consumers.providers.errors import ProviderError
from consumers.providers.protocol import Document, JobState, JobStatus, Provider, SubmitOptions
from schemas.policy import Policy

SYNCHRONOUS_PAUSE_S = 0.05
CAUSES = ("submit", "provider", "poll_lag", "images", "end_to_end")


@dataclass(slots=True)
class Extraction:
    """One document's way; seconds by cause."""

    seconds: dict[str, float] = field(default_factory=dict)
    polls: int = 0
    images: int = 0
    bytes: int = 0
    """Of the images received."""
    failure: str | None = None
    left_behind: bool = False
    """The service still keeps the job."""


@dataclass(frozen=True, slots=True)
class Way:
    """A column of the comparison."""

    name: str
    provider: Provider
    policy: Policy
    synchronous: bool
    price_per_page: float | None = None


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
        schedule = schedule_for([way.policy])
        with ThreadPoolExecutor(concurrency) as threads, tempfile.TemporaryDirectory() as folder:

            def one(
                numbered: tuple[int, Document],
                way: Way = way,
                schedule: PollSchedule = schedule,
                folder: str = folder,
            ) -> Extraction:
                number, document = numbered
                directory = Path(folder, str(number))
                directory.mkdir()
                return extract(way, schedule, document, directory)

            started = time.monotonic()
            done = list(threads.map(one, enumerate(documents)))
            seconds = time.monotonic() - started
        rows.append(row(way, documents, done, seconds))
    return rows


def extract(
    way: Way,
    schedule: PollSchedule,
    document: Document,
    directory: Path,
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> Extraction:
    """Submitted under a key that nobody used before; a failure is part of the outcome."""
    outcome, started = Extraction(), time.monotonic()
    job_id = None
    try:
        submission = way.provider.submit(
            document,
            key=str(uuid.uuid4()),
            options=SubmitOptions(way.policy.soft_masks, way.policy.repeat_drawings),
        )
        job_id, accepted = submission.job_id, time.monotonic()
        outcome.seconds["submit"] = accepted - started
        status = submission.status or _wait(
            way, schedule, document, job_id, accepted, outcome, sleep
        )
        _split(outcome, status, accepted)
        _fetch(way, document, job_id, status, directory, outcome)
    except ProviderError as error:
        outcome.failure = error.code
    except TimeoutError:
        outcome.failure = "deadline"
    outcome.seconds["end_to_end"] = time.monotonic() - started
    if job_id is not None:
        _forget(way, job_id, outcome)
    return outcome


def _wait(
    way: Way,
    schedule: PollSchedule,
    document: Document,
    job_id: str,
    accepted: float,
    outcome: Extraction,
    sleep: Callable[[float], None],
) -> JobStatus:
    """:raises TimeoutError: the policy's deadline came first."""
    hint: float | None = None
    polling = way.policy.polling
    while True:
        age = time.monotonic() - accepted
        delay = (
            SYNCHRONOUS_PAUSE_S
            if way.synchronous
            else schedule.next_delay(polling, age, outcome.polls, hint, document.pages)
        )
        sleep(delay)
        status = way.provider.poll(job_id)
        outcome.polls += 1
        schedule.asked(max(time.monotonic() - accepted - age - delay, 0.0))
        age = time.monotonic() - accepted
        if status.state is not JobState.RUNNING:
            schedule.learn(age, document.pages)
            return status
        hint = status.retry_after
        if age >= polling.deadline_s:
            raise TimeoutError


def _split(outcome: Extraction, status: JobStatus, accepted: float) -> None:
    """Where the service does not say when it finished, all of the wait counts as its own."""
    waited = time.monotonic() - accepted
    finished = parse_rfc3339(status.finished_at) if status.finished_at else None
    lag = min(max(time.time() - finished, 0.0), waited) if finished is not None else 0.0
    outcome.seconds |= {"provider": waited - lag, "poll_lag": lag}


def _fetch(
    way: Way,
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
    images = status.images if status.images_listed else way.provider.images(job_id, document)
    for number, image in enumerate(images):
        fetched = way.provider.fetch_image(
            job_id,
            image,
            directory / f"{number}",
            max_bytes=way.policy.limits.max_image_bytes,
        )
        outcome.images += 1
        outcome.bytes += fetched.bytes
        fetched.path.unlink()
    outcome.seconds["images"] = time.monotonic() - started


def _forget(way: Way, job_id: str, outcome: Extraction) -> None:
    if not way.provider.abilities.forgets:
        outcome.left_behind = True
        return
    try:
        way.provider.forget(job_id)
    except ProviderError:
        outcome.left_behind = True


def row(
    way: Way, documents: Sequence[Document], done: Sequence[Extraction], seconds: float
) -> dict[str, Any]:
    """Pure."""
    failures: dict[str, int] = {}
    for one in done:
        if one.failure is not None:
            failures[one.failure] = failures.get(one.failure, 0) + 1
    failed, left = sum(failures.values()), sum(one.left_behind for one in done)
    pages = sum(document.pages for document in documents)
    return {
        "way": way.name,
        "documents": len(done),
        "documents_per_s": round((len(done) - failed) / seconds, 2) if seconds else 0.0,
        "seconds": {cause: _percentiles(done, cause) for cause in CAUSES},
        "polls": sum(one.polls for one in done),
        "failures": failures,
        "images": sum(one.images for one in done),
        "bytes": sum(one.bytes for one in done),
        "jobs_left_at_service": left,
        # What nobody does by himself here: send a failed document again, delete what is left.
        "manual_steps": failed + left,
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
