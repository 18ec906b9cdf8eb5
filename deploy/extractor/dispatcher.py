"""Runs accepted jobs: one slot per worker process, jobs in the order of their acceptance."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import structlog

from deploy.extractor.contract import JobError
from deploy.extractor.datadir import DataDir
from deploy.extractor.metrics import Metrics
from deploy.extractor.sandbox import (
    Extracted,
    Failed,
    Outcome,
    StorageFull,
    WorkerProcess,
    WorkerUnavailable,
)
from deploy.extractor.settings import Settings
from deploy.extractor.store import JobStore

_RESTART_PAUSE_S = 1.0
_FIRST_GUESS_OF_A_JOB_S = 0.2
_WEIGHT_OF_THE_NEWEST_JOB = 0.1

_log = structlog.get_logger("extractor")
_T = TypeVar("_T")


class Dispatcher:
    """Everything here runs on the event loop; store writes go to the one writer thread."""

    def __init__(
        self, settings: Settings, store: JobStore, files: DataDir, metrics: Metrics
    ) -> None:
        self._settings = settings
        self._store = store
        self._files = files
        self._metrics = metrics
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="extractor-writer")
        self._order: asyncio.Queue[str] = asyncio.Queue()
        self._queued_at: dict[str, float] = {}
        self._running: dict[str, WorkerProcess] = {}
        self._waiting: defaultdict[str, set[asyncio.Future[None]]] = defaultdict(set)
        self._slots: list[asyncio.Task[None]] = []
        self._workers = [WorkerProcess(settings) for _ in range(settings.workers)]
        self._start_failed = False
        self._stopping = False
        self._mean_job_s = _FIRST_GUESS_OF_A_JOB_S

    @property
    def queued(self) -> int:
        return len(self._queued_at)

    @property
    def can_work(self) -> bool:
        """False when no worker process is up and the last attempt to start one failed."""
        if self._slots and all(slot.done() for slot in self._slots):
            return False
        return self.workers_up > 0 or not self._start_failed

    @property
    def workers_up(self) -> int:
        return sum(worker.is_alive for worker in self._workers)

    @property
    def network_isolated(self) -> bool:
        return all(worker.network_isolated for worker in self._workers if worker.is_alive)

    def start(self) -> None:
        self._slots = [
            asyncio.create_task(self._slot(worker), name=f"extractor-slot-{number}")
            for number, worker in enumerate(self._workers)
        ]

    async def stop(self) -> None:
        """End the workers; what they were doing is queued again, without a charged attempt."""
        self.release_waiters()
        for slot in self._slots:
            slot.cancel()
        await asyncio.gather(*self._slots, return_exceptions=True)
        self._writer.shutdown(wait=True)

    async def write(self, operation: Callable[[], _T]) -> _T:
        """Run a store write on the writer thread."""
        return await asyncio.get_running_loop().run_in_executor(self._writer, operation)

    def enqueue(self, job_id: str) -> None:
        self._queued_at[job_id] = time.monotonic()
        self._order.put_nowait(job_id)
        self._metrics.queued.set(self.queued)

    async def forget(self, job_id: str) -> None:
        """Stop work on a job that was deleted from the store."""
        self._queued_at.pop(job_id, None)
        self._metrics.queued.set(self.queued)
        worker = self._running.get(job_id)
        if worker is not None:
            await worker.kill()
        self._wake(job_id)

    async def wait_until_finished(self, job_id: str, seconds: float) -> None:
        """Return when the job finishes, is deleted, the service stops, or the time is over."""
        if self._stopping or (job_id not in self._queued_at and job_id not in self._running):
            return
        finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[job_id].add(finished)
        try:
            async with asyncio.timeout(seconds):
                await finished
        except TimeoutError:
            pass
        finally:
            waiting = self._waiting.get(job_id)
            if waiting is not None:
                waiting.discard(finished)
                if not waiting:
                    del self._waiting[job_id]

    def release_waiters(self) -> None:
        """Answer all long polls now, so that an orderly stop need not wait for them."""
        self._stopping = True
        for job_id in list(self._waiting):
            self._wake(job_id)

    def seconds_until_room(self) -> float:
        """A hint for who found the queue full."""
        return min(max(self._mean_job_s / self._settings.workers, 1.0), 60.0)

    def seconds_until_finished(self, job_id: str) -> float:
        """A hint for who asks about an unfinished job: an estimate, bounded both ways."""
        ahead = self.queued / self._settings.workers if job_id in self._queued_at else 0
        return min(max(self._mean_job_s * (1 + ahead), 0.05), 10.0)

    def _wake(self, job_id: str) -> None:
        for finished in self._waiting.pop(job_id, ()):
            if not finished.done():
                finished.set_result(None)

    async def _slot(self, worker: WorkerProcess) -> None:
        try:
            while True:
                await self._ensure_up(worker)
                job_id = await self._order.get()
                await self._ensure_up(worker)  # it may have died while idle
                try:
                    await self._run(job_id, worker)
                except (OSError, sqlite3.Error, WorkerUnavailable) as problem:
                    # The disk or the machine, not the document, so the job must not fail for it.
                    _log.error("job_postponed", job_id=job_id, reason=type(problem).__name__)
                    await self._postpone(job_id)
        finally:
            await worker.kill()

    async def _ensure_up(self, worker: WorkerProcess) -> None:
        if worker.is_alive and worker.jobs_done >= self._settings.jobs_per_worker:
            await worker.kill()
            self._metrics.worker_ends.labels("planned").inc()
        while not worker.is_alive:
            self._metrics.worker_starts.inc()
            try:
                await worker.start()
            except (WorkerUnavailable, OSError) as problem:
                self._start_failed = True
                self._metrics.worker_ends.labels("start_failed").inc()
                reason = str(problem) if isinstance(problem, WorkerUnavailable) else "os_error"
                _log.error("worker_start_failed", reason=reason)
                await asyncio.sleep(_RESTART_PAUSE_S)
            else:
                self._start_failed = False

    async def _run(self, job_id: str, worker: WorkerProcess) -> None:
        queued_at = self._queued_at.get(job_id)
        if queued_at is None:
            return  # deleted while it waited
        started = await self.write(lambda: self._store.start(job_id))
        row = self._store.get(job_id) if started else None
        self._queued_at.pop(job_id, None)
        self._metrics.queued.set(self.queued)
        if row is None:
            return
        self._running[job_id] = worker
        self._metrics.running.set(len(self._running))
        self._metrics.queue_seconds.observe(time.monotonic() - queued_at)
        began = time.monotonic()
        try:
            out_dir = self._files.fresh_output(job_id)
            options = {**self._settings.engine_limits(), **json.loads(row.options)}
            outcome = await worker.run(self._files.input_of(job_id), out_dir, options)
            await self._record(job_id, outcome, time.monotonic() - began, worker)
        except asyncio.CancelledError:
            with contextlib.suppress(sqlite3.Error):  # recovery at the next start does the same
                await self.write(lambda: self._store.requeue(job_id))
            raise
        finally:
            self._running.pop(job_id, None)
            self._metrics.running.set(len(self._running))
            self._wake(job_id)

    async def _record(
        self, job_id: str, outcome: Outcome, seconds: float, worker: WorkerProcess
    ) -> None:
        if isinstance(outcome, StorageFull):
            raise OSError(errno.ENOSPC, "no room for the images")
        now = time.time()
        store, files = self._store, self._files

        def record() -> bool:
            if isinstance(outcome, Extracted):
                known = store.complete(
                    job_id,
                    pages=outcome.pages,
                    images=outcome.images,
                    problems=outcome.problems,
                    now=now,
                )
            else:
                known = store.fail(job_id, outcome.code, outcome.which, now)
            if not known or isinstance(outcome, Failed):
                files.remove_job(job_id)
            else:
                files.remove_input(job_id)  # the document itself is not needed any more
            return known

        was_known = await self.write(record)
        if not worker.is_alive and isinstance(outcome, Failed):
            self._metrics.worker_ends.labels(outcome.code if was_known else "deleted").inc()
        if not was_known:
            self._metrics.finished.labels("deleted").inc()
            return
        self._mean_job_s += _WEIGHT_OF_THE_NEWEST_JOB * (seconds - self._mean_job_s)
        if isinstance(outcome, Extracted):
            name = "completed"
            self._metrics.pages.inc(outcome.pages)
            self._metrics.images.inc(len(outcome.images))
            self._metrics.output_bytes.inc(sum(image.bytes for image in outcome.images))
            _log.info(
                "job_completed",
                job_id=job_id,
                pages=outcome.pages,
                images=len(outcome.images),
                seconds=round(seconds, 3),
            )
        else:
            name = outcome.code.value
            level = _log.error if outcome.code is JobError.CRASHED else _log.info
            level("job_failed", job_id=job_id, code=name, which=outcome.which, at=outcome.at)
        self._metrics.finished.labels(name).inc()
        self._metrics.job_seconds.labels(name).observe(seconds)

    async def _postpone(self, job_id: str) -> None:
        """Queue the job again after a pause, without charging it the attempt."""
        while True:
            await asyncio.sleep(self._settings.postpone_s)
            with contextlib.suppress(sqlite3.Error):
                await self.write(lambda: self._store.requeue(job_id))
                break
        self.enqueue(job_id)
