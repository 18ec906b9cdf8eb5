"""A fixed number of sandbox processes, shared by the threads of the worker."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import astuple
from itertools import groupby
from pathlib import Path
from typing import TypeVar

from consumers.extraction.documents.model import (
    Assembled,
    AssemblyLimits,
    AssemblyPart,
    ImageLimits,
    Inspection,
    InspectionLimits,
    Region,
    RejectedImage,
    VerifiedImage,
)
from consumers.extraction.sandbox import answers, channel
from consumers.extraction.sandbox.errors import (
    SandboxClosed,
    SandboxCrashed,
    SandboxError,
    SandboxMemory,
    SandboxTimeout,
    SandboxUnavailable,
)
from consumers.extraction.sandbox.files import check_room, created, open_for_reading, total_bytes
from consumers.extraction.sandbox.limits import MIB, SLOW_PROCESSES, SandboxLimits
from consumers.extraction.sandbox.process import (
    LIMIT_SIGNALS,
    Nursery,
    NurseryLost,
    SandboxProcess,
)

T = TypeVar("T")

# One request holds so many images at most, because its time limit is for the whole of it.
IMAGES_PER_REQUEST = 50
IMAGE_BYTES_PER_REQUEST = 16 * MIB

# What honest work needs on top of the limit grows with the size. JPEG 2000 is the slowest to
# decode: 4 MiB/s of CPU were measured for the worst case, noise. PDFs are read and hashed.
_IMAGE_BYTES_PER_SECOND = 1 * MIB
_PDF_BYTES_PER_SECOND = 32 * MIB

# One request renders one page: a scan of 200 dpi takes 0.1 to 0.5 s to render and to compress.
_SECONDS_TO_RENDER = 10.0


class _Interrupted(Exception):
    """The process was ended from outside, or wrote to a disk that was full for a moment: neither
    says anything about the document."""


class _Slot:
    """The right of one call to one process, in one of two lanes."""

    def __init__(self, fast_lane: threading.Semaphore, slow_lane: threading.Semaphore) -> None:
        self._fast_lane = fast_lane
        self._slow_lane = slow_lane
        self.is_slow = False

    def move_to_slow_lane(self) -> bool:
        """Whether there was room; otherwise the call stays where it is."""
        if self.is_slow or not self._slow_lane.acquire(blocking=False):
            return False
        self.is_slow = True
        self._fast_lane.release()
        return True

    def __enter__(self) -> _Slot:
        self._fast_lane.acquire()
        return self

    def __exit__(self, *_exception: object) -> None:
        (self._slow_lane if self.is_slow else self._fast_lane).release()


class Sandbox:
    """Parses documents in processes with limits. Every method may be called from any thread.

    A call waits for a free process without bound, then takes `limits.wall_seconds` at most, and
    for large files a little more. A process that exceeds a limit is killed and replaced; the other
    processes go on.
    """

    def __init__(
        self,
        processes: int,
        limits: SandboxLimits | None = None,
        on_kill: Callable[[str], None] | None = None,
        slow_processes: int | None = None,
    ) -> None:
        """Start the processes and wait until they are ready (about 0.5 s).

        Documents that take longer than `limits.slow_after_seconds` go on in `slow_processes` more
        processes (by default twice as many), at a lower priority, and do not hold up the others;
        memory has to suffice for all of them.

        `on_kill(reason)` is called, in the thread of the call, for each process that died or was
        killed for its document. Raises SandboxUnavailable.
        """
        if processes < 1:
            raise ValueError("processes must be at least 1")
        self._limits = limits or SandboxLimits()
        self._on_kill = on_kill or (lambda reason: None)
        self._fast_lane = threading.Semaphore(processes)
        self._slow_lane = threading.Semaphore(
            SLOW_PROCESSES * processes if slow_processes is None else slow_processes
        )
        self._lock = threading.Lock()
        self._closed = False
        self._peak_bytes = 0
        self._nursery = Nursery(self._limits)
        try:
            self._idle = [self._nursery.spawn() for _ in range(processes)]
        except NurseryLost as error:
            self._nursery.close()
            raise SandboxUnavailable("processes for parsing documents cannot be forked") from error

    def inspect(
        self,
        path: Path,
        limits: InspectionLimits,
        password: str | None = None,
        *,
        sha256: str | None = None,
    ) -> Inspection:
        """`sha256` (hex): where it is known, which spares a pass over the file and is believed
        before what a process says that a document may have taken over.

        Raises DocumentRejected, SandboxError, and OSError if the file cannot be opened.
        """
        with open_for_reading([path]) as files:
            return self._call(
                {
                    "operation": "inspect",
                    "limits": {
                        "max_bytes": limits.max_bytes,
                        "max_pages": limits.max_pages,
                        "accept_header_offset": limits.accept_header_offset,
                    },
                    "password": password,
                    "sha256": sha256,
                },
                files,
                total_bytes(files) / _PDF_BYTES_PER_SECOND,
                lambda answer: answers.inspection(answer, limits, sha256),
            )

    def assemble(
        self,
        parts: Sequence[AssemblyPart],
        destination: Path,
        limits: AssemblyLimits | None = None,
    ) -> Assembled:
        """Write the pages of the parts to a new private file (0600) at `destination`.

        Raises DocumentRejected, SandboxError, FileExistsError, and OSError for the files; nothing
        is left at `destination` then.
        """
        limits = limits or AssemblyLimits()
        sources = list(dict.fromkeys(part.path for part in parts))
        if len(sources) >= channel.MAX_FILES:
            raise ValueError(f"at most {channel.MAX_FILES - 1} different sources in one document")
        with open_for_reading(sources) as files, created(destination) as target:
            return self._call(
                {
                    "operation": "assemble",
                    "limits": {"max_bytes": limits.max_bytes, "max_pages": limits.max_pages},
                    "parts": [
                        {
                            "file": sources.index(part.path),
                            "first_page": part.first_page,
                            "last_page": part.last_page,
                            "password": part.password,
                            "rebuild": part.rebuild,
                        }
                        for part in parts
                    ],
                },
                files,
                total_bytes(files) / _PDF_BYTES_PER_SECOND,
                lambda answer: answers.assembled(answer, len(parts), limits),
                destination=target,
            )

    def verify_images(
        self, files: Sequence[Path], limits: ImageLimits
    ) -> list[VerifiedImage | RejectedImage]:
        """One verdict per file, in order. Raises SandboxError, and OSError for the files.

        Many images, or large ones, are sent in several requests, each with its own time limit.
        """
        verdicts: list[VerifiedImage | RejectedImage] = []
        sizes = [file.stat().st_size for file in files]
        for run in answers.batches(sizes, IMAGES_PER_REQUEST, IMAGE_BYTES_PER_REQUEST):
            with open_for_reading(files[run]) as descriptors:
                verdicts += self._call(
                    {
                        "operation": "verify_images",
                        "limits": {
                            "max_bytes": limits.max_bytes,
                            "max_pixels": limits.max_pixels,
                            "media_types": sorted(limits.media_types),
                        },
                    },
                    descriptors,
                    sum(sizes[run]) / _IMAGE_BYTES_PER_SECOND,
                    functools.partial(answers.images, count=len(descriptors), limits=limits),
                )
        return verdicts

    def cut_regions(self, path: Path, regions: Sequence[Region], dpi: int) -> list[bytes]:
        """One PNG for each region of the rendered pages, in their order: `dpi` dots per inch.

        Raises RegionOutside, DocumentRejected, SandboxError, and OSError for the files.
        """
        cut: list[bytes] = []
        for _, run in groupby(regions, key=lambda region: region.page):
            cut += self._cut_page(path, list(run), dpi)
        return cut

    def _cut_page(self, path: Path, regions: Sequence[Region], dpi: int) -> list[bytes]:
        with (
            open_for_reading([path]) as files,
            tempfile.TemporaryFile(dir=self._limits.temporary_directory) as target,
        ):
            sizes = self._call(
                {
                    "operation": "cut_regions",
                    "regions": [astuple(region) for region in regions],
                    "dpi": dpi,
                },
                files,
                total_bytes(files) / _PDF_BYTES_PER_SECOND + _SECONDS_TO_RENDER,
                lambda answer: answers.cut_sizes(
                    answer, len(regions), os.fstat(target.fileno()).st_size
                ),
                destination=target.fileno(),
            )
            target.seek(0)
            return [target.read(size) for size in sizes]

    @property
    def peak_bytes(self) -> int:
        """The most resident memory that any sandbox process has had."""
        return self._peak_bytes

    @property
    def network_isolated(self) -> bool:
        """Whether the kernel keeps the processes off the network, by a namespace or by a filter
        of system calls; if not, only Python does."""
        return self._nursery.network_isolated

    def close(self) -> None:
        """End all processes; calls that wait or run raise SandboxClosed."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for process in self._idle:
                process.connection.close()
            self._idle.clear()
        self._nursery.close()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def _call(
        self,
        message: channel.Message,
        files: Sequence[int],
        more_seconds: float,
        parse: Callable[[channel.Message], T],
        destination: int | None = None,
    ) -> T:
        """`files` are read; `destination` is written anew, whatever an attempt before has left."""
        message["cpu_seconds"] = self._limits.cpu_seconds + more_seconds
        wall_seconds = self._limits.wall_seconds + more_seconds
        with _Slot(self._fast_lane, self._slow_lane) as slot:
            try:
                return self._call_once(message, files, wall_seconds, parse, slot, destination)
            except _Interrupted:
                pass
            # Once more: the document may be blameless. A second time in a row it is not.
            try:
                return self._call_once(message, files, wall_seconds, parse, slot, destination)
            except _Interrupted:
                raise self._counted(SandboxCrashed()) from None

    def _call_once(
        self,
        message: channel.Message,
        files: Sequence[int],
        wall_seconds: float,
        parse: Callable[[channel.Message], T],
        slot: _Slot,
        destination: int | None,
    ) -> T:
        process = self._take()
        try:
            sent = files if destination is None else [*files, destination]
            process.send(message, sent, wall_seconds)
            if not process.has_answer(self._limits.slow_after_seconds):
                self._to_slow_lane(process, slot)
            answer = process.receive()
        except channel.ChannelTimeout:
            self._end(process, slot, kill=True)
            raise self._counted(SandboxTimeout()) from None
        except channel.ChannelClosed:
            ended_by = self._end(process, slot, kill=False)
            if self._closed:
                raise SandboxClosed("the sandbox was closed while a document was parsed") from None
            if ended_by is None or ended_by in (signal.SIGKILL, signal.SIGTERM):
                raise _Interrupted from None
            error = SandboxTimeout() if ended_by in LIMIT_SIGNALS else SandboxCrashed()
            raise self._counted(error) from None
        except BaseException:  # the thread is being stopped; the process is in an unknown state
            self._end(process, slot, kill=True)
            raise
        self._peak_bytes = max(self._peak_bytes, process.peak_bytes)
        if answer.get("out_of_memory") is True:
            self._end(process, slot, kill=True)
            raise self._counted(SandboxMemory())
        try:
            if answers.wrote_nothing_more(answer):
                if destination is None:
                    raise answers.InvalidAnswer
                check_room(destination)
                raise _Interrupted  # there is room by now
            answers.raise_if_rejected(answer)
            result = parse(answer)
        except answers.InvalidAnswer:
            self._end(process, slot, kill=True)
            raise self._counted(SandboxCrashed()) from None
        except BaseException:
            self._give_back(process, slot)
            raise
        self._give_back(process, slot)
        return result

    def _to_slow_lane(self, process: SandboxProcess, slot: _Slot) -> None:
        """Let a document that takes long go on beside, and others have its place."""
        if slot.move_to_slow_lane():
            process.lower_priority()
            self._add_idle()

    def _counted(self, error: SandboxError) -> SandboxError:
        self._on_kill(error.reason)
        return error

    def _take(self) -> SandboxProcess:
        with self._lock:
            if self._closed:
                raise SandboxClosed("the sandbox is closed")
            if self._idle:
                return self._idle.pop()
        return self._spawn()

    def _give_back(self, process: SandboxProcess, slot: _Slot) -> None:
        """Keep a process for the next document, or replace it."""
        if (
            slot.is_slow
            or process.requests >= self._limits.requests_per_process
            # What a large document left behind is given back to the machine.
            or process.peak_bytes > self._limits.memory_bytes // 4
        ):
            self._end(process, slot, kill=True)
        else:
            self._keep(process)

    def _end(self, process: SandboxProcess, slot: _Slot, *, kill: bool) -> int | None:
        ended_by = self._nursery.end(process, kill=kill)
        if not slot.is_slow:  # one that is slow was replaced when it became so
            self._add_idle()
        return ended_by

    def _add_idle(self) -> None:
        # Without one the next call starts its own, and reports why it cannot.
        with contextlib.suppress(SandboxClosed, SandboxUnavailable):
            self._keep(self._spawn())

    def _keep(self, process: SandboxProcess) -> None:
        with self._lock:
            if self._closed:
                process.connection.close()
            else:
                self._idle.append(process)

    def _spawn(self) -> SandboxProcess:
        try:
            return self._nursery.spawn()
        except NurseryLost:
            return self._spawn_from_new_nursery()

    def _spawn_from_new_nursery(self) -> SandboxProcess:
        with self._lock:
            if self._closed:
                raise SandboxClosed("the sandbox is closed")
            try:  # another thread may have replaced it
                return self._nursery.spawn()
            except NurseryLost:
                self._nursery.close()
            for process in self._idle:  # they died with it
                process.connection.close()
            self._idle.clear()
            self._nursery = Nursery(self._limits)
            try:
                return self._nursery.spawn()
            except NurseryLost as error:
                raise SandboxUnavailable(
                    "processes for parsing documents cannot be forked"
                ) from error
