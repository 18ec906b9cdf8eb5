"""Ways to end a process that cannot end itself."""

from __future__ import annotations

import subprocess
import sys
import threading

from consumers.runtime.exits import Exit
from consumers.runtime.watchdog import LoopWatchdog, ends_within
from tests.unit.consumers.runtime.fakes import FakeClock


def test_a_loop_that_beats_is_left_alone_and_one_that_stops_is_reported_once() -> None:
    stuck = threading.Event()
    reports: list[tuple[Exit, str]] = []

    def on_stuck(code: Exit, message: str) -> None:
        reports.append((code, message))
        stuck.set()

    clock = FakeClock()
    watchdog = LoopWatchdog(0.1, on_stuck, clock)
    watchdog.start()
    for _ in range(5):
        clock.advance(0.09)
        watchdog.beat()
        assert not stuck.wait(0.05)
    clock.advance(0.11)
    assert stuck.wait(30)
    assert [code for code, _ in reports] == [Exit.LOOP_STUCK]
    assert watchdog.age > watchdog.limit


def test_a_stopped_watchdog_reports_nothing() -> None:
    stuck = threading.Event()
    watchdog = LoopWatchdog(0.05, lambda code, message: stuck.set())
    watchdog.start()
    watchdog.stop()
    watchdog._thread.join(30)
    assert not stuck.is_set()


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )


def test_stacks_of_all_threads_are_on_stderr_when_it_kills() -> None:
    ended = run(
        "import threading, time\n"
        "from consumers.runtime.watchdog import LoopWatchdog\n"
        "def asleep_in_here(): time.sleep(60)\n"
        "threading.Thread(target=asleep_in_here).start()\n"
        "LoopWatchdog(0.2).start()\n"
        "time.sleep(60)\n"
    )
    assert ended.returncode == Exit.LOOP_STUCK
    assert "stuck" in ended.stderr
    assert "asleep_in_here" in ended.stderr


def test_a_block_that_takes_too_long_ends_the_process_with_the_code() -> None:
    ended = run(
        "import time\n"
        "from consumers.runtime.exits import Exit\n"
        "from consumers.runtime.watchdog import ends_within\n"
        "with ends_within(0.2, Exit.UNCOMMITTED, 'the shutdown'): time.sleep(60)\n"
    )
    assert ended.returncode == Exit.UNCOMMITTED
    assert "the shutdown did not end within 0.2 s" in ended.stderr


def test_a_block_that_ends_in_time_leaves_no_timer() -> None:
    before = threading.active_count()
    with ends_within(60, Exit.UNCOMMITTED, "nothing"):
        pass
    for thread in threading.enumerate():
        if thread.name == "deadline-nothing":
            thread.join(30)
    assert threading.active_count() <= before
