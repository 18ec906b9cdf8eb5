"""The jobs of a fake service, with images that are small, real, and the same for the same key."""

from __future__ import annotations

import hashlib
import io
import struct
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

SIDE_PIXELS = 16


@dataclass(slots=True)
class Image:
    page: int
    index: int
    """1-based on its page."""
    png: bytes

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.png).hexdigest()


@dataclass(slots=True)
class Job:
    """``state``: running, succeeded, failed or partial. ``word`` overrides what the service says.

    ``finishes_at`` (Unix seconds): when it succeeds by itself; None: when it is told to.
    """

    id: str
    key: str | None
    sha256: str
    pages: int
    images_per_page: int = 2
    state: str = "running"
    word: str | None = None
    code: str | None = None
    finishes_at: float | None = None
    submitted_at: float = field(default_factory=time.time)
    pages_done: int = field(init=False)

    def __post_init__(self) -> None:
        self.pages_done = self.pages

    @property
    def now(self) -> str:
        """The state at this moment."""
        if self.state == "running" and self.finishes_at is not None:
            return "succeeded" if time.time() >= self.finishes_at else "running"
        return self.state

    @property
    def images(self) -> list[Image]:
        return [
            self.image(page, index)
            for page in range(1, self.pages_done + 1)
            for index in range(1, self.images_per_page + 1)
        ]

    def image(self, page: int, index: int) -> Image:
        seed = f"{self.key or self.sha256}/{page}/{index}".encode()
        return Image(page, index, solid_png(hashlib.sha256(seed).digest()[:3]))


class JobBook:
    """What a service remembers. ``idempotent``: a key that it has seen gives the job of then."""

    def __init__(self, *, idempotent: bool, new_id: Callable[[int], str] | None = None) -> None:
        self.idempotent = idempotent
        self.jobs: dict[str, Job] = {}
        self.started: list[Job] = []
        """Every job that was ever accepted (and would have been billed)."""
        self._by_key: dict[str, Job] = {}
        self._new_id = new_id or (lambda number: f"job-{number:06d}")

    def start(
        self, key: str | None, sha256: str, pages: int, *, images_per_page: int = 2
    ) -> tuple[Job, bool]:
        """The job, and whether it is new.

        Raises:
            KeyMismatch: the key was used for another document.
        """
        known = self._by_key.get(key) if self.idempotent and key is not None else None
        if known is not None:
            if known.sha256 != sha256:
                raise KeyMismatch
            return known, False
        job = Job(self._new_id(len(self.started) + 1), key, sha256, pages, images_per_page)
        self.add(job)
        return job, True

    def add(self, job: Job) -> None:
        self.jobs[job.id] = job
        self.started.append(job)
        if job.key is not None:
            self._by_key[job.key] = job

    def forget(self, job_id: str) -> None:
        job = self.jobs.pop(job_id, None)
        if job is not None and job.key is not None and self._by_key.get(job.key) is job:
            del self._by_key[job.key]


class KeyMismatch(Exception):
    """The same key with another document."""


def page_count(document: bytes) -> int:
    """Pages of a PDF; 1 for what is none."""
    import pikepdf

    try:
        with pikepdf.open(io.BytesIO(document)) as pdf:
            return max(1, len(pdf.pages))
    except (pikepdf.PdfError, pikepdf.PasswordError, pikepdf.QpdfRuntimeError):
        return 1


def solid_png(colour: bytes) -> bytes:
    """A square of one RGB colour."""
    rows = (b"\x00" + colour * SIDE_PIXELS) * SIDE_PIXELS
    header = struct.pack(">IIBBBBB", SIDE_PIXELS, SIDE_PIXELS, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


def multipart_file(body: bytes, content_type: str, field_name: str) -> bytes | None:
    """The content of one file field of a form."""
    boundary = content_type.partition("boundary=")[2].strip('"').encode()
    for part in body.split(b"--" + boundary):
        head, _, content = part.partition(b"\r\n\r\n")
        if f'name="{field_name}"'.encode() in head and b"filename=" in head:
            return content.removesuffix(b"\r\n")
    return None
