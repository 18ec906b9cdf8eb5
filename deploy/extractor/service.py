"""What the service does, without HTTP: accept, report, serve files, delete, recover, sweep."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import sqlite3
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import structlog

from deploy.extractor import signing
from deploy.extractor.contract import ApiError, JobStatus, RequestError
from deploy.extractor.datadir import DataDir
from deploy.extractor.dispatcher import Dispatcher
from deploy.extractor.metrics import Metrics
from deploy.extractor.options import parse_options
from deploy.extractor.records import ImageRow, JobRow
from deploy.extractor.settings import Settings
from deploy.extractor.store import JobStore
from deploy.extractor.upload import Upload, is_storage_full

_STORAGE_RETRY_S = 30.0

_log = structlog.get_logger("extractor")


@dataclass(frozen=True, slots=True)
class Submitted:
    """`is_new` is False when the idempotency key already named this job."""

    job: JobRow
    is_new: bool


class ExtractionService:
    """Open it with `start`, which recovers the jobs of an earlier run; end it with `stop`.

    Raises DataDirInUse or OSError when the data directory cannot be used.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.files = DataDir(settings.data_dir)
        self.store = JobStore(self.files.database)
        self.dispatcher = Dispatcher(settings, self.store, self.files, self.metrics)
        self._url_key = self.files.file_url_key()
        self._receiving = 0
        self._sweeper: asyncio.Task[None] | None = None

    async def start(self) -> None:
        unfinished = self.store.recover(self.settings.max_attempts, time.time())
        self._remove_what_a_crash_left()
        for job_id in unfinished:
            self.dispatcher.enqueue(job_id)
        self.dispatcher.start()
        self._sweeper = asyncio.create_task(self._sweep_for_ever(), name="extractor-sweeper")
        _log.info("started", recovered_jobs=len(unfinished))

    async def stop(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.gather(self._sweeper, return_exceptions=True)
        await self.dispatcher.stop()
        self.store.close()
        self.files.close()

    async def submit(
        self,
        owner: bytes,
        idempotency_key: str | None,
        receive: Callable[[Path], Awaitable[Upload]],
    ) -> Submitted:
        """Accept a document durably; `owner` keeps the jobs and keys of different tokens apart.

        `receive` stores the document at the path it is given. Raises ApiError.
        """
        key_digest = None
        if idempotency_key is not None:
            key_digest = hashlib.sha256(owner + idempotency_key.encode()).hexdigest()
        self._refuse_when_full(key_digest)
        job_id = secrets.token_hex(16)
        path = self.files.input_of(job_id)
        discard = True
        self._receiving += 1
        self.metrics.receiving.set(self._receiving)
        try:
            async with asyncio.timeout(self.settings.upload_timeout_s):
                upload = await receive(path)
            submitted = await self._accept(job_id, owner, key_digest, upload)
            discard = not submitted.is_new
            return submitted
        except asyncio.CancelledError:
            # Whether the job was recorded is not known here; the next start removes orphans.
            discard = False
            raise
        except TimeoutError:
            raise ApiError(
                408, RequestError.UPLOAD_TIMEOUT, "the body did not arrive in time"
            ) from None
        except (OSError, sqlite3.Error) as problem:
            if isinstance(problem, sqlite3.Error) or is_storage_full(problem):
                raise _storage_full() from None
            raise
        finally:
            self._receiving -= 1
            self.metrics.receiving.set(self._receiving)
            if discard:
                path.unlink(missing_ok=True)

    async def job(self, owner: bytes, job_id: str, wait_s: float) -> JobRow | None:
        """The owner's job as recorded, after waiting up to `wait_s` for its end; None when unknown
        or somebody else's."""
        row = self._of_owner(owner, job_id)
        if row is None or row.status.is_terminal or wait_s <= 0:
            return row
        await self.dispatcher.wait_until_finished(job_id, wait_s)
        return self.store.get(job_id)

    def _of_owner(self, owner: bytes, job_id: str) -> JobRow | None:
        row = self.store.get(job_id)
        return row if row is not None and row.owner in (_owner_name(owner), "") else None

    def file_token(self, job_id: str, ordinal: int) -> str:
        """A fresh capability for one image."""
        expires_at = time.time() + self.settings.file_url_ttl_s
        return signing.sign(self._url_key, job_id, ordinal, expires_at)

    def file(self, token: str) -> tuple[Path, ImageRow]:
        """The image that a token names. Raises ApiError: forged, too old, or removed."""
        try:
            job_id, ordinal = signing.verify(self._url_key, token, time.time())
        except signing.BadToken:
            raise ApiError(
                403, RequestError.BAD_FILE_TOKEN, "this URL was not made by this service"
            ) from None
        except signing.ExpiredToken:
            raise ApiError(
                410, RequestError.FILE_EXPIRED, "this URL is too old; read the job for a fresh one"
            ) from None
        image = self.store.image(job_id, ordinal)
        if image is None:
            raise ApiError(410, RequestError.FILE_GONE, "the job of this file was removed")
        return self.files.output_of(job_id) / image.file, image

    async def delete(self, owner: bytes, job_id: str) -> None:
        """Forget the owner's job and remove its files; an unknown one is as good as deleted, and
        somebody else's is not touched."""
        if self._of_owner(owner, job_id) is None:
            return

        def delete() -> bool:
            known = self.store.delete(job_id)
            if known:
                self.files.remove_job(job_id)
            return known

        if await self.dispatcher.write(delete):
            # A job that is running writes on until it is stopped here; its slot then finds that
            # it was deleted and removes what it wrote.
            await self.dispatcher.forget(job_id)
            self.metrics.jobs_removed.labels("request").inc()

    async def sweep(self) -> int:
        """Remove the jobs that finished longer ago than the retention; returns how many."""
        cutoff = time.time() - self.settings.retention_s
        expired = await self.dispatcher.write(lambda: self.store.delete_finished_before(cutoff))
        for job_id in expired:
            await asyncio.to_thread(self.files.remove_job, job_id)
            self.metrics.jobs_removed.labels("age").inc()
        return len(expired)

    def _remove_what_a_crash_left(self) -> None:
        """Files are removed after their job's end is recorded; a crash comes between the two."""
        statuses = self.store.statuses()
        for job_id in self.files.job_ids_on_disk():
            status = statuses.get(job_id)
            if status is None:
                self.files.remove_job(job_id)
                self.metrics.jobs_removed.labels("orphan").inc()
            elif status is JobStatus.FAILED:
                self.files.remove_job(job_id)
            elif status is JobStatus.COMPLETED:
                self.files.remove_input(job_id)

    async def _sweep_for_ever(self) -> None:
        while True:
            try:
                await self.sweep()
            except (OSError, sqlite3.Error) as problem:
                _log.error("sweep_failed", reason=type(problem).__name__)
            await asyncio.sleep(self.settings.sweep_every_s)

    def _refuse_when_full(self, key_digest: str | None) -> None:
        if key_digest is not None and self.store.is_known_key(key_digest):
            return  # a repeated submit adds no work, and its answer is what the sender lacks
        if self.dispatcher.queued + self._receiving >= self.settings.queue_capacity:
            raise ApiError(
                429,
                RequestError.QUEUE_FULL,
                "the queue is full; send the same request again later",
                retry_after_s=self.dispatcher.seconds_until_room(),
            )
        if self.files.free_bytes() < self.settings.min_free_bytes:
            raise _storage_full()

    async def _accept(
        self, job_id: str, owner: bytes, key_digest: str | None, upload: Upload
    ) -> Submitted:
        options = parse_options(upload.fields).for_engine()
        fingerprint = hashlib.sha256(f"{upload.sha256}\n{options}".encode()).hexdigest()
        now = time.time()
        accepted = await self.dispatcher.write(
            lambda: self.store.accept(
                job_id,
                owner=_owner_name(owner),
                key_digest=key_digest,
                fingerprint=fingerprint,
                options=options,
                input_bytes=upload.bytes,
                now=now,
                window_s=self.settings.key_window_s,
            )
        )
        if accepted.is_mismatch:
            raise ApiError(
                409,
                RequestError.IDEMPOTENCY_MISMATCH,
                "this Idempotency-Key was used with another document or other options",
            )
        if accepted.is_new:
            self.dispatcher.enqueue(job_id)
            self.metrics.input_bytes.inc(upload.bytes)
        job = self.store.get(accepted.job_id)
        if job is None:  # deleted in this instant, by a request that raced with this one
            raise ApiError(404, RequestError.JOB_NOT_FOUND, "the job was deleted")
        return Submitted(job, accepted.is_new)


def _owner_name(owner: bytes) -> str:
    """What is written of a token: enough to tell it from others, not to find it out."""
    return hashlib.sha256(b"owner" + owner).hexdigest()


def _storage_full() -> ApiError:
    return ApiError(
        503,
        RequestError.STORAGE_FULL,
        "the service has no room on its disk; nothing was accepted",
        retry_after_s=_STORAGE_RETRY_S,
    )
