"""What a sandbox process gives up, by the kernel where it allows that to an ordinary user."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import socket
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000

# One for each segment of a document, of which an event names 10,000 at most.
_OPEN_FILES = 10_256


def leave_network() -> bool:
    """Move this single-threaded process, and all it will fork, to a network of its own.

    Returns whether the kernel did; many container runtimes do not let it, and then it is for
    `seccomp.forbid_sockets`.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    return any(
        libc.unshare(flags) == 0 for flags in (_CLONE_NEWUSER | _CLONE_NEWNET, _CLONE_NEWNET)
    )


def disable_sockets() -> None:
    """No Python code of this process can open a socket any more (native code still could)."""

    def refuse(*_arguments: object, **_keywords: object) -> socket.socket:
        raise PermissionError("a sandbox process has no network")

    for name in ("create_connection", "create_server", "socketpair", "getaddrinfo"):
        setattr(socket, name, refuse)
    socket.socket.connect = refuse  # type: ignore[method-assign, assignment]
    socket.socket.bind = refuse  # type: ignore[method-assign, assignment]


def die_with_parent(parent: int) -> None:
    """Be killed when the parent process ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the kernel was told
        os._exit(1)


def prefer_as_out_of_memory_victim() -> None:
    """When the machine or the container runs out of memory, end this process, not the worker."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def limit_resources(memory_bytes: int, file_bytes: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    files = min(_OPEN_FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    # Neither processes nor threads. The kernel does not count them for root.
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))


def limit_cpu_seconds(seconds: float) -> None:
    """Be killed (SIGPROF) after so much CPU time from now on; 0 lifts the limit."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, seconds)
