"""One worker process as the service sees it: give it a job, get an outcome, whatever happens."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.extractor.contract import JobError
from deploy.extractor.failures import STORAGE_FULL
from deploy.extractor.records import ImageRow
from deploy.extractor.settings import MIB, Settings

_LONGEST_ANSWER = 64 * MIB
# Native libraries would otherwise start a thread per core in each worker, each with its own
# stack and arena in the address space that is being limited.
_ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",
}


@dataclass(frozen=True, slots=True)
class Extracted:
    pages: int
    images: tuple[ImageRow, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """`which` names the limit or signal, `at` the place in the code; neither quotes a document."""

    code: JobError
    which: str | None = None
    at: str | None = None


@dataclass(frozen=True, slots=True)
class StorageFull:
    """The disk is full: nothing is wrong with the job, which must wait."""


Outcome = Extracted | Failed | StorageFull


class WorkerUnavailable(RuntimeError):
    """The process did not come up: the engine cannot be loaded, or the machine is out of room."""


class WorkerProcess:
    """Starts on `start`, serves `run` calls one at a time, must be `kill`ed when not wanted."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._process: asyncio.subprocess.Process | None = None
        self.jobs_done = 0
        self.network_isolated = False

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    async def start(self) -> None:
        """Start the process and wait until its engine is loaded; raises WorkerUnavailable."""
        settings = self._settings
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "deploy.extractor.child",
            str(os.getpid()),
            settings.engine,
            str(settings.job_memory_bytes),
            str(settings.max_total_bytes),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=_environment(),
            limit=_LONGEST_ANSWER,
            start_new_session=True,  # a Ctrl-C in the terminal is for the service to handle
        )
        self.jobs_done = 0
        try:
            async with asyncio.timeout(settings.worker_start_s):
                greeting = await self._read_line()
        except TimeoutError:
            await self.kill()
            raise WorkerUnavailable(
                "the worker did not start in time; raise EXTRACTOR_WORKER_START_S"
            ) from None
        if not greeting:
            await self.kill()
            raise WorkerUnavailable(
                "the worker ended while loading the engine; check EXTRACTOR_ENGINE "
                "and that its packages are installed"
            )
        self.network_isolated = bool(json.loads(greeting).get("network_isolated"))

    async def run(self, source: Path, out_dir: Path, options: dict[str, Any]) -> Outcome:
        """Run one job. After a `Failed` by time-out, memory or crash the process is gone."""
        if self._process is None or self._process.stdin is None:
            raise WorkerUnavailable("not started")
        job = {
            "input": str(source),
            "out_dir": str(out_dir),
            "options": options,
            "cpu_s": self._settings.job_cpu_s,
        }
        try:
            async with asyncio.timeout(self._settings.job_wall_s):
                with contextlib.suppress(ConnectionError):  # its end shows as an empty answer
                    self._process.stdin.write(json.dumps(job).encode() + b"\n")
                    await self._process.stdin.drain()
                answer = await self._read_line()
        except TimeoutError:
            await self.kill()
            return Failed(JobError.TIMEOUT, "job_wall_s")
        except ValueError:  # StreamReader: the line is longer than its limit
            await self.kill()
            return Failed(JobError.LIMIT_EXCEEDED, "answer_bytes")
        self.jobs_done += 1
        if not answer:
            return death_of(await self._process.wait())
        try:
            outcome = outcome_of(json.loads(answer))
        except (ValueError, KeyError, TypeError):  # a native library that runs wild may write it
            await self.kill()
            return Failed(JobError.CRASHED, "answer")
        if isinstance(outcome, Failed) and outcome.code is JobError.MEMORY:
            await self.kill()
        return outcome

    async def kill(self) -> None:
        """End the process, at once and for certain; nothing if it has ended."""
        process = self._process
        if process is None:
            return
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                # The whole session, in case the engine started something.
                os.killpg(process.pid, signal.SIGKILL)
        await process.wait()

    async def _read_line(self) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        return await self._process.stdout.readline()


def _environment() -> dict[str, str]:
    """What a worker needs to start and nothing else: no token, no credential of the machine."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TZ") if name in os.environ}
    python_path = os.pathsep.join(path for path in sys.path if path)
    return {**kept, **_ONE_THREAD, "PYTHONPATH": python_path, "PYTHONDONTWRITEBYTECODE": "1"}


def death_of(return_code: int) -> Failed:
    """Why a worker ended in the middle of a job, from its return code (negative: a signal)."""
    if return_code == -signal.SIGXCPU:
        return Failed(JobError.TIMEOUT, "job_cpu_s")
    if return_code < 0:
        return Failed(JobError.CRASHED, signal.Signals(-return_code).name)
    return Failed(JobError.CRASHED, f"exit_{return_code}")


def outcome_of(answer: dict[str, Any]) -> Outcome:
    """What a worker's answer line says."""
    error = answer.get("error")
    if error == STORAGE_FULL:
        return StorageFull()
    if error is not None:
        return Failed(JobError(error), answer.get("which"), answer.get("at"))
    images = tuple(
        ImageRow(
            page=image["page"],
            index=image["index"],
            file=Path(image["file"]).name,  # never a path out of the job's directory
            media_type=image["media_type"],
            width=image["width"],
            height=image["height"],
            sha256=image["sha256"],
            bytes=image["bytes"],
            is_mask=image["is_mask"],
        )
        for image in answer["images"]
    )
    return Extracted(answer["pages"], images, tuple(answer["problems"]))
