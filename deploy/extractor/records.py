"""What is recorded of a job and of its images."""

from __future__ import annotations

from dataclasses import dataclass

from deploy.extractor.contract import JobError, JobStatus


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job as recorded; times are Unix seconds. ``owner``: empty where it is not known."""

    id: str
    owner: str
    status: JobStatus
    fingerprint: str
    options: str
    input_bytes: int
    attempts: int
    submitted_at: float
    finished_at: float | None
    pages: int | None
    error_code: JobError | None
    error_which: str | None
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ImageRow:
    """One output file of a job; `file` is a bare name in the job's output directory."""

    page: int
    index: int
    file: str
    media_type: str
    width: int
    height: int
    sha256: str
    bytes: int
    is_mask: bool


@dataclass(frozen=True, slots=True)
class Accepted:
    """What a submit came to: a new job, the one its key already names, or a mismatch."""

    job_id: str
    is_new: bool
    is_mismatch: bool = False
