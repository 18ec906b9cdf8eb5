"""A child process that is watched: early ends, signals, logs, and the death of its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from deploy.local import process
from deploy.local.process import (
    ChildProcess,
    ServerFailed,
    free_ports,
    port_is_free,
    says_port_taken,
)

_PATIENCE = 60.0
_SLEEPER = "print('up', flush=True); import time; time.sleep(600)"

Run = Callable[[str], ChildProcess]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    started: list[ChildProcess] = []

    def start(program: str) -> ChildProcess:
        child = ChildProcess(
            "The server", [sys.executable, "-c", program], log_file=tmp_path / "server.log"
        )
        started.append(child)
        child.start()
        return child

    yield start
    for child in started:
        child.kill()


def _up(child: ChildProcess) -> Callable[[], bool]:
    return lambda: "up" in child.last_lines()


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def _is_gone(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def test_a_server_that_ends_before_it_is_ready_fails_at_once_with_its_own_last_lines(
    run: Run,
) -> None:
    child = run("import sys; print('no room on disk'); sys.exit(7)")
    # A time-out that the test's own limit would not survive: it must not be waited for.
    with pytest.raises(ServerFailed, match=r"(?s)The server ended with exit code 7.*no room on"):
        child.wait_ready(lambda: False, timeout=3_600)


def test_a_server_that_is_never_ready_fails_after_the_time_out(run: Run) -> None:
    child = run(_SLEEPER)
    child.wait_ready(_up(child), _PATIENCE)
    with pytest.raises(ServerFailed, match=r"(?s)not ready after 0.1 s.*up"):
        child.wait_ready(lambda: False, timeout=0.1)


def test_stop_asks_first(run: Run) -> None:
    child = run(
        "import signal, sys\n"
        "def end(*_): print('tidied up', flush=True); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end); print('up', flush=True); signal.pause()"
    )
    child.wait_ready(_up(child), _PATIENCE)
    child.stop(_PATIENCE)
    assert child.returncode == 0
    assert "tidied up" in child.last_lines()


def test_stop_ends_a_server_that_does_not_listen(run: Run) -> None:
    child = run(f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {_SLEEPER}")
    child.wait_ready(_up(child), _PATIENCE)
    child.stop(timeout=0.2)
    assert child.returncode == -signal.SIGKILL


def test_kill_takes_what_the_server_started_with_it(run: Run) -> None:
    child = run(
        "import subprocess, sys\n"
        "other = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"print('other', other.pid, flush=True); {_SLEEPER}"
    )
    child.wait_ready(_up(child), _PATIENCE)
    other = int(child.last_lines().split()[1])
    child.kill()
    _until(lambda: _is_gone(other))


def test_stopping_what_has_ended_or_never_started_is_harmless(run: Run, tmp_path: Path) -> None:
    child = run("pass")
    _until(lambda: not child.running)
    child.stop()
    child.kill()
    ChildProcess("Never started", ["true"], log_file=tmp_path / "none.log").stop()


def test_a_restarted_server_shows_only_lines_of_its_latest_life(run: Run) -> None:
    child = run("import os; print('life of', os.getpid(), 'up', flush=True); " + _SLEEPER)
    child.wait_ready(_up(child), _PATIENCE)
    first = child.pid
    child.restart()
    child.wait_ready(_up(child), _PATIENCE)
    assert f"life of {child.pid}" in child.last_lines()
    assert f"life of {first}" not in child.last_lines()
    assert f"life of {first}" in child.log_file.read_text()


def test_a_server_cannot_be_started_twice(run: Run) -> None:
    child = run(_SLEEPER)
    with pytest.raises(ServerFailed, match="already running"):
        child.start()


def test_a_start_that_is_interrupted_leaves_nothing_that_kill_does_not_know_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spawner = process._spawner

    class Interrupted:
        def submit(self, work: Callable[[], None]) -> None:
            spawner.submit(work)
            raise KeyboardInterrupt

    child = ChildProcess("x", [sys.executable, "-c", _SLEEPER], log_file=tmp_path / "log")
    with monkeypatch.context() as patched:
        patched.setattr(process, "_spawner", Interrupted())
        with pytest.raises(KeyboardInterrupt):
            child.start()
    child.kill()
    assert child.returncode == -signal.SIGKILL


def test_a_server_outlives_the_thread_that_started_it(run: Run) -> None:
    children: list[ChildProcess] = []
    thread = threading.Thread(target=lambda: children.append(run(_SLEEPER)))
    thread.start()
    thread.join()
    children[0].wait_ready(_up(children[0]), _PATIENCE)
    assert children[0].running


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's help exists on Linux only")
def test_a_server_dies_with_the_process_that_started_it_even_if_that_was_killed(
    tmp_path: Path,
) -> None:
    program = (
        "import sys, time; from pathlib import Path\n"
        "from deploy.local.process import ChildProcess\n"
        "child = ChildProcess('x', [sys.executable, '-c', 'import time; time.sleep(600)'],"
        " log_file=Path(sys.argv[1]))\n"
        "child.start(); print(child.pid, flush=True); time.sleep(600)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "log")],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[4],
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    _until(lambda: "sleep" in " ".join(psutil.Process(pid).cmdline()[:3]))
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    _until(lambda: _is_gone(pid))


def test_free_ports_are_different_and_free() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    assert all(map(port_is_free, ports))


@pytest.mark.parametrize(
    "line",
    [
        "listen tcp 127.0.0.1:21001: bind: address already in use",
        "java.net.BindException: Address already in use",
    ],
)
def test_a_taken_port_is_recognised_in_a_servers_words(line: str) -> None:
    assert says_port_taken(f"something else\n{line}\n")
