"""The sandboxed worker process: takes jobs one after another, runs the engine on each.

Speaks JSON lines with the service: one greeting, then for each job line one answer line. The
service kills and replaces the process on a time-out; limits that the kernel can enforce are set
here. The process holds no secret: its environment is made by the service (`sandbox.py`).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import importlib
import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from consumers.seccomp import forbid_sockets
from deploy.extractor.engine.model import (
    EncryptedDocument,
    Extraction,
    ExtractOptions,
    LimitExceeded,
    UnreadableDocument,
)
from deploy.extractor.failures import STORAGE_FULL, place_of

_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_MAX_PROBLEMS = 100
_FEW_FILES = 16
_SECOND_THREAD_BYTES = 80 * 1024 * 1024
"""Of address space, mostly never used: a stack and what the C library sets aside for its memory."""

Engine = Callable[[Path, Path, ExtractOptions], Extraction]


def main() -> None:
    """Arguments: the service's process id, the engine, address space and largest file in bytes."""
    service_pid, engine_name = int(sys.argv[1]), sys.argv[2]
    memory_bytes, file_bytes = int(sys.argv[3]), int(sys.argv[4])
    die_with_the_service(service_pid)
    isolated = cut_off_network()
    answers = take_over_stdout()
    engine = load_engine(engine_name)
    limit_resources(memory_bytes, file_bytes)
    send(answers, {"ready": True, "network_isolated": isolated})
    for line in sys.stdin.buffer:
        job = json.loads(line)
        limit_cpu(float(job["cpu_s"]))
        answer = run(engine, job)
        send(answers, answer)
        if answer.get("error") == "memory":
            # Which half-built state a failed allocation left in a native library is unknown.
            return


def run(engine: Engine, job: dict[str, Any]) -> dict[str, Any]:
    """The answer for one job; an exception becomes an error code, never its text."""
    out_dir = Path(job["out_dir"])
    try:
        extraction = engine(Path(job["input"]), out_dir, options_of(job))
        return answer_of(extraction, out_dir)
    except EncryptedDocument:
        return {"error": "encrypted"}
    except LimitExceeded as exceeded:
        code = "memory" if exceeded.which == "memory" else "limit_exceeded"
        return {"error": code, "which": exceeded.which}
    except UnreadableDocument:
        return {"error": "unreadable"}
    except MemoryError:
        return {"error": "memory", "which": "address_space"}
    except RecursionError:
        return {"error": "unreadable", "which": "nesting"}
    except OSError as refused:
        if refused.errno in (errno.ENOSPC, errno.EDQUOT):
            return {"error": STORAGE_FULL}
        if refused.errno == errno.EFBIG:  # RLIMIT_FSIZE
            return {"error": "limit_exceeded", "which": "max_total_bytes"}
        return {"error": "crashed", "which": type(refused).__name__, "at": place_of(refused)}
    except Exception as unexpected:
        # The class and the place, since the text may quote the document.
        return {"error": "crashed", "which": type(unexpected).__name__, "at": place_of(unexpected)}


def options_of(job: dict[str, Any]) -> ExtractOptions:
    """The engine's options; JSON has no tuples."""
    page_range = job["options"].get("page_range")
    return ExtractOptions(
        **{**job["options"], "page_range": tuple(page_range) if page_range else None}
    )


def answer_of(extraction: Extraction, out_dir: Path) -> dict[str, Any]:
    """The engine's result with its files made durable."""
    images = []
    for image in extraction.images:
        images.append(
            {
                "page": image.page,
                "index": image.index,
                "file": image.file.name,
                "media_type": image.media_type,
                "width": image.width,
                "height": image.height,
                "sha256": image.sha256,
                "bytes": image.bytes,
                "is_mask": image.is_mask,
            }
        )
    # Several entries may share one file.
    make_durable(out_dir, {out_dir / image.file.name for image in extraction.images})
    problems = [str(problem) for problem in extraction.problems[:_MAX_PROBLEMS]]
    if (more := len(extraction.problems) - _MAX_PROBLEMS) > 0:
        problems.append(f"more count={more}")
    return {"pages": extraction.pages, "images": images, "problems": problems}


def make_durable(directory: Path, files: set[Path]) -> None:
    """Force files and their names to the disk before the job is reported as done.

    Each fsync of a new file costs a commit of the file system's journal; for many files one
    syncfs(2) costs one, whatever else it has to write.
    """
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
        if len(files) > _FEW_FILES and syncfs is not None and syncfs(descriptor) == 0:
            return
        for path in files:
            with path.open("rb") as file:
                os.fsync(file.fileno())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def load_engine(name: str) -> Engine:
    module_name, function_name = name.split(":")
    engine: Engine = getattr(importlib.import_module(module_name), function_name)
    return engine


def die_with_the_service(service_pid: int) -> None:
    """Ask the kernel to kill this process when the service dies, however it dies."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if os.getppid() != service_pid:
        # The service was gone before the request above took effect.
        sys.exit(1)


def cut_off_network() -> bool:
    """Move into an empty network namespace or, where that is forbidden, give up sockets.

    Before there is a second thread. Returns whether the kernel did either.
    """
    unshare = getattr(ctypes.CDLL(None, use_errno=True), "unshare", None)
    isolated = unshare is not None and (
        unshare(_CLONE_NEWNET) == 0 or unshare(_CLONE_NEWUSER | _CLONE_NEWNET) == 0
    )
    return isolated or forbid_sockets()


def take_over_stdout() -> BinaryIO:
    """The service's pipe for this module alone: what native libraries print goes nowhere.

    They print to stdout and stderr, and what they print may quote the document.
    """
    answers = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    return answers


def limit_resources(memory_bytes: int, file_bytes: int) -> None:
    """Set after the engine is loaded, so that the limit measures the job and not the libraries."""
    with contextlib.suppress(OSError):
        os.nice(5)  # the service must stay able to answer while all cores extract
    address_space = _address_space_now() + _SECOND_THREAD_BYTES + memory_bytes
    resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would hold the document


def limit_cpu(seconds: float) -> None:
    """Allow this much more CPU time; past it the kernel kills the process with SIGXCPU."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    allowed = int(usage.ru_utime + usage.ru_stime + seconds) + 1
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (allowed, hard))


def send(answers: BinaryIO, answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer).encode() + b"\n")
    answers.flush()


def _address_space_now() -> int:
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[0]) * resource.getpagesize()


if __name__ == "__main__":
    try:
        main()
    except (BrokenPipeError, KeyboardInterrupt):
        sys.exit(0)
