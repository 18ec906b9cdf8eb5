"""The worker's side of the nursery and of one sandbox process."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import consumers
from consumers.extraction.sandbox import channel
from consumers.extraction.sandbox.errors import SandboxUnavailable
from consumers.extraction.sandbox.limits import SandboxLimits
from consumers.one_core import ALL_CORES

_START_SECONDS = 60.0  # importing the engines takes 0.5 s of CPU; a loaded machine may be slow
_COMMAND_SECONDS = 15.0
# A tenth of the CPU time of a process of normal priority, where they compete.
_SLOW_NICENESS = 10


class NurseryLost(Exception):
    """The nursery died; its children died with it."""


class Nursery:
    """Starts and ends sandbox processes. Safe to call from several threads."""

    def __init__(self, limits: SandboxLimits) -> None:
        """Start it and wait until it is ready. Raises SandboxUnavailable."""
        self._limits = limits
        self._lock = threading.Lock()
        self._temporary = tempfile.TemporaryDirectory(
            prefix="sandbox-", dir=limits.temporary_directory, ignore_cleanup_errors=True
        )
        ours, theirs = socket.socketpair()
        self._connection = ours
        with theirs:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "consumers.extraction.sandbox.nursery",
                    str(theirs.fileno()),
                    self._temporary.name,
                    ",".join(map(str, sorted(ALL_CORES))),
                ],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,  # engines quote the content in what they write there
                cwd=self._temporary.name,
                env=_environment(self._temporary.name),
                start_new_session=True,  # Ctrl-C in a terminal is for the worker, which drains
            )
        try:
            ready = self._read(_START_SECONDS)
            if "unavailable" in ready:
                raise SandboxUnavailable(str(ready["unavailable"])[:500])
        except NurseryLost as error:
            self.close()
            raise SandboxUnavailable(
                "the process for parsing documents did not start: "
                f"run '{sys.executable} -m consumers.extraction.sandbox.child' to see why"
            ) from error
        except SandboxUnavailable:
            self.close()
            raise
        self.network_isolated = ready.get("network_isolated") is True

    def spawn(self) -> SandboxProcess:
        """Raises NurseryLost."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                answer = self._command(
                    {
                        "operation": "spawn",
                        "memory_bytes": self._limits.memory_bytes,
                        "file_bytes": self._limits.file_bytes,
                    },
                    [theirs.fileno()],
                )
                return SandboxProcess(ours, int(answer["process"]))
            except (NurseryLost, KeyError, TypeError, ValueError) as error:
                ours.close()
                raise NurseryLost from error

    def end(self, process: SandboxProcess, *, kill: bool) -> int | None:
        """Make sure that a process is gone; returns the signal it died of by itself, 0 or None.

        None when the nursery is lost, and the process with it. Without `kill` a process that is
        about to die is given a second to do so, which tells its reason.
        """
        process.connection.close()
        try:
            answer = self._command(
                {"operation": "end", "process": process.process_id, "kill": kill}
            )
        except NurseryLost:
            return None
        number = answer.get("signal")
        return number if isinstance(number, int) else None

    def close(self) -> None:
        """End the nursery and all of its children."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()
        try:
            self._process.wait(_COMMAND_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()  # its children are killed with it
            self._process.wait()
        self._temporary.cleanup()

    def _command(self, message: channel.Message, files: Sequence[int] = ()) -> channel.Message:
        with self._lock:
            try:
                channel.send(self._connection, message, files)
            except (channel.ChannelClosed, channel.ChannelTimeout) as error:
                raise NurseryLost from error
            return self._read(_COMMAND_SECONDS)

    def _read(self, seconds: float) -> channel.Message:
        try:
            message, _ = channel.receive(self._connection, deadline=time.monotonic() + seconds)
        except (channel.ChannelClosed, channel.ChannelTimeout) as error:
            # After a timeout the next answer would be taken for another command's.
            self._process.kill()
            raise NurseryLost from error
        return message


class SandboxProcess:
    """One running sandbox process; used by one thread at a time."""

    def __init__(self, connection: socket.socket, process_id: int) -> None:
        self.connection = connection
        self.process_id = process_id
        self.requests = 0
        self.peak_bytes = 0
        self._deadline = 0.0

    def send(self, message: channel.Message, files: Sequence[int], wall_seconds: float) -> None:
        """Raises ChannelTimeout and ChannelClosed, as do the others; it is then unusable."""
        self._deadline = time.monotonic() + wall_seconds
        self.requests += 1
        self.connection.settimeout(wall_seconds)
        channel.send(self.connection, message, files)

    def has_answer(self, seconds: float) -> bool:
        """Wait so long for the answer to begin, or for the process to end."""
        poll = select.poll()  # select() takes no descriptor over 1,023
        poll.register(self.connection, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def receive(self) -> channel.Message:
        answer, _ = channel.receive(self.connection, deadline=self._deadline)
        peak = answer.get("peak_kib")
        if isinstance(peak, int) and 0 < peak < 1 << 40:
            self.peak_bytes = peak * 1024
        return answer

    def lower_priority(self) -> None:
        with contextlib.suppress(OSError):  # it may have ended
            os.setpriority(os.PRIO_PROCESS, self.process_id, _SLOW_NICENESS)


def _environment(temporary: str) -> dict[str, str]:
    """Nothing of the worker's own environment, which may hold secrets, but what Python needs."""
    roots = [str(Path(consumers.__file__).resolve().parents[1])]
    inherited = {
        name: os.environ[name]
        for name in ("PATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "MAGIC", "LANG")
        if name in os.environ
    }
    if "PYTHONPATH" in os.environ:
        roots.append(os.environ["PYTHONPATH"])
    return {
        **inherited,
        "PYTHONPATH": os.pathsep.join(roots),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUTF8": "1",
        "HOME": temporary,
        "TMPDIR": temporary,
    }


LIMIT_SIGNALS = frozenset({signal.SIGPROF, signal.SIGXCPU})
