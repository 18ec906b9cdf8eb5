"""Keeps the threads of a worker together, on one processor core at a time.

The interpreter runs one thread at a time, so further cores add next to nothing. What they cost is
that each of the two hundred hand-overs of a document wakes another core, which has none of its data
in its cache: a quarter of the worker's CPU on two cores (DESIGN.md, "Cost of calls").

The core is looked at once a second, and left for another where the worker would have more of it.
For the same reason a thread that wakes up waits until the one that runs has done its piece
(`without_preempting`).
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ALL_CORES: frozenset[int] = frozenset(
    os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()
)
"""What this process was given at its start. Its children are to have them all again."""
WORTH_MOVING = 0.25
"""Of a core, so much more must be free elsewhere: what was kept in the caches is lost."""
ABOUT_EQUAL = 0.1
"""Of a core: between such cores chance decides, so that two workers do not meet again."""
MOVES = 0.5
"""How likely a worker moves when it should: of two that share a core only one has to."""
_OUR_CORE_FIELD = 36  # of /proc/self/stat, counted after the name (proc_pid_stat(5))


@dataclass(frozen=True, slots=True)
class Usage:
    """Seconds since some beginning: of each core in use, and of this process on whichever."""

    busy: Mapping[int, float]
    own: float
    at: float


def better_core(core: int, before: Usage, after: Usage, rng: random.Random) -> int | None:
    """Where this process would have more of a core than on ``core``, on which all of it ran."""
    seconds = after.at - before.at
    if seconds <= 0:
        return None
    free = {
        number: 1 - (after.busy[number] - before.busy[number]) / seconds
        for number in after.busy.keys() & before.busy.keys()
    }
    if core not in free:
        return None
    here = free.pop(core) + (after.own - before.own) / seconds
    best = max(free.values(), default=0.0)
    if best < here + WORTH_MOVING or rng.random() >= MOVES:
        return None
    return rng.choice(sorted(number for number in free if free[number] >= best - ABOUT_EQUAL))


class OneCore:
    """Stays where the kernel has put the process, until `look` finds a better core."""

    def __init__(
        self,
        cores: Collection[int] = ALL_CORES,
        *,
        usage: Callable[[Collection[int]], Usage | None] | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """``cores``: those to choose from; with fewer than two the process is left alone."""
        self._cores = cores
        self._usage = usage or read_usage
        self._rng = rng or random.Random()
        self._seen = self._usage(cores) if len(cores) > 1 else None
        self.core: int | None = None
        """None: the process is left alone, there being no choice or no way to see."""
        if self._seen is not None:
            self._go_to(_core_of_this_thread(cores))

    def look(self) -> None:
        """Takes less than a millisecond; to be called now and then, not more than once a second."""
        if self.core is None or self._seen is None:
            return
        now = self._usage(self._cores)
        if now is None:
            return
        better = better_core(self.core, self._seen, now, self._rng)
        self._seen = now
        if better is not None:
            self._go_to(better)

    def leave(self) -> None:
        """Let the threads run on all cores again."""
        if self.core is not None:
            self.core = None
            with suppress(OSError):
                _move_all_threads(self._cores)

    def _go_to(self, core: int) -> None:
        self.core = core
        try:
            _move_all_threads({core})
        except OSError:  # taken away from us meanwhile, or not permitted here
            self.leave()


def without_preempting() -> None:
    """For this thread and all that it starts, processes too: who has an answer takes no core away
    from who is at work (sched(7), SCHED_BATCH). Such interruptions are one to four percent of a
    loaded worker's CPU."""
    if hasattr(os, "SCHED_BATCH"):
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def read_usage(cores: Collection[int]) -> Usage | None:
    """Now; None where the system does not tell it of all ``cores``."""
    try:
        text = Path("/proc/stat").read_text(encoding="ascii")
        busy = busy_seconds(text, os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError):
        return None
    if not busy.keys() >= set(cores):
        return None
    return Usage({core: busy[core] for core in cores}, time.process_time(), time.monotonic())


def busy_seconds(stat: str, ticks_per_second: float) -> dict[int, float]:
    """Of each core in the text of /proc/stat (proc(5)): all but idle and waiting for disks."""
    busy = {}
    for line in stat.splitlines():
        name, *counts = line.split()
        if name.startswith("cpu") and name != "cpu":
            user, nice, system, _idle, _iowait, *rest = map(int, counts[:8])
            busy[int(name[3:])] = (user + nice + system + sum(rest)) / ticks_per_second
    return busy


def _core_of_this_thread(cores: Collection[int]) -> int:
    with suppress(OSError, ValueError, IndexError):
        stat = Path("/proc/thread-self/stat").read_text(encoding="utf-8", errors="replace")
        core = int(stat.rpartition(")")[2].split()[_OUR_CORE_FIELD])
        if core in cores:
            return core
    return min(cores)


def _move_all_threads(cores: Collection[int]) -> None:
    """New threads start where the one is that starts them, so none is left behind for long."""
    moved: set[str] = set()
    while left := set(os.listdir("/proc/self/task")) - moved:
        for thread in left:
            with suppress(ProcessLookupError):
                os.sched_setaffinity(int(thread), cores)
        moved |= left
