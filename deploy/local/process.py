"""A server run as a child process: started, watched until it is ready, stopped, killed, restarted.

The child has a process group of its own (Ctrl-C in the terminal reaches only us, and we stop it
in order), writes to a log file, and dies when we die.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

LOOPBACK = "127.0.0.1"

_TETHER = Path(__file__).with_name("tether.py")
_EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST_PORT = 10_240

# The kernel's "kill me when my parent dies" means the parent *thread*. Starting every child from
# one thread that lives as long as the process lets callers start servers from short-lived ones.
_spawner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="server-spawner")


class ServerFailed(RuntimeError):
    """A server did not start, or ended by itself. The text holds the server's own last lines."""


class ChildProcess:
    """One supervised child process.

    ``argv`` may be replaced before a restart (other ports). Not thread-safe: one owner.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        *,
        log_file: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self.name = name
        self.argv = list(argv)
        self.log_file = log_file
        self._env = env
        self._cwd = cwd
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise ServerFailed(f"{self.name} was not started")
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return None if self._process is None else self._process.poll()

    def start(self) -> None:
        """Start the process; it is not ready yet (see `wait_ready`).

        Raises ServerFailed if it is running already, OSError if the command does not exist.
        """
        if self.running:
            raise ServerFailed(f"{self.name} is already running (process {self.pid})")
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        self._log_start = self.log_file.stat().st_size if self.log_file.exists() else 0
        _spawner.submit(self._spawn).result()

    def _spawn(self) -> None:
        """On the spawner's thread, where no signal raises: a `start` that is interrupted leaves no
        process that `kill` does not know of."""
        argv = [sys.executable, "-I", "-S", str(_TETHER), str(os.getpid()), *self.argv]
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=None if self._env is None else dict(self._env),
                cwd=self._cwd,
                start_new_session=True,
            )

    def wait_ready(self, ready: Callable[[], bool], timeout: float) -> None:
        """Wait until ``ready()`` is true, at most ``timeout`` seconds.

        Raises ServerFailed at once when the process ends first, and at the time-out; either way
        with the server's own last lines.
        """
        deadline = time.monotonic() + timeout
        while not ready():
            if not self.running:
                raise ServerFailed(
                    f"{self.name} ended with exit code {self.returncode} before it was ready. "
                    f"Its last lines:\n{self.last_lines()}"
                )
            if time.monotonic() > deadline:
                raise ServerFailed(
                    f"{self.name} was not ready after {timeout:g} s. "
                    f"Its last lines:\n{self.last_lines()}"
                )
            time.sleep(0.05)

    def last_lines(self, count: int = 20) -> str:
        """The last lines written since the latest start."""
        try:
            with self.log_file.open("rb") as log:
                end = log.seek(0, os.SEEK_END)
                log.seek(max(self._log_start, end - 64_000))
                text = log.read().decode("utf-8", errors="replace")
        except FileNotFoundError:
            text = ""
        return "\n".join(text.splitlines()[-count:]) or "(it wrote nothing)"

    def stop(self, timeout: float = 10.0) -> None:
        """Ask it to end (SIGTERM); after ``timeout`` seconds end it (SIGKILL)."""
        self.terminate()
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout)
        self.kill()

    def terminate(self) -> None:
        """Ask it to end (SIGTERM) without waiting: for stopping several at the same time."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it and all it started at once (SIGKILL), as a crash would."""
        self._signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def restart(self) -> None:
        """Stop and start again; not ready yet."""
        self.stop()
        self.start()

    def _signal(self, number: signal.Signals) -> None:
        _spawner.submit(lambda: None).result()  # behind a `start` that was interrupted
        # Only while we have not reaped it: until then neither its id nor its group is reused.
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)


def free_ports(count: int) -> list[int]:
    """Different TCP ports of the loopback address that nobody listens on now.

    They lie below the range the kernel hands out for outgoing connections, so that a server that
    is stopped and started again finds its port free. Somebody may still be faster: whoever starts
    a server on them tries again with others (`says_port_taken`).
    """
    ports: list[int] = []
    highest = _lowest_ephemeral_port() - 1
    with contextlib.ExitStack() as held:
        while len(ports) < count:
            probe = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            port = random.randint(_LOWEST_PORT, highest) if highest > _LOWEST_PORT + 5_000 else 0
            with contextlib.suppress(OSError):
                probe.bind((LOOPBACK, port))
                ports.append(probe.getsockname()[1])
    return ports


def says_port_taken(text: str) -> bool:
    """Whether a server's last lines say that it could not listen on its port."""
    return "address already in use" in text.lower()


def port_is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do: the remains of closed connections do not make a port taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def _lowest_ephemeral_port() -> int:
    try:
        return int(_EPHEMERAL_RANGE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 0  # unknown: let the kernel choose
