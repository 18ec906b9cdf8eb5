"""Which core a worker stays on, and that all of its threads do."""

from __future__ import annotations

import multiprocessing
import os
import random
import threading
from collections.abc import Collection
from pathlib import Path

import pytest

from consumers.one_core import OneCore, Usage, better_core, busy_seconds, read_usage

needs_affinity = pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity"), reason="this system does not let a process choose cores"
)
needs_two_cores = pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="one core leaves no choice",
)


class Always(random.Random):
    """Moves whenever it should."""

    def random(self) -> float:
        return 0.0


class Never(random.Random):
    def random(self) -> float:
        return 1.0


def used(own: float, *busy: float) -> tuple[Usage, Usage]:
    """One second in which core 0, 1, ... were busy so long, and this process had so much of it."""
    nothing = Usage(dict.fromkeys(range(len(busy)), 0.0), 0.0, 0.0)
    return nothing, Usage(dict(enumerate(busy)), own, 1.0)


@pytest.mark.parametrize(
    ("own", "busy", "expected"),
    [
        pytest.param(0.9, (0.9, 0.0), None, id="alone there, however busy"),
        pytest.param(0.5, (1.0, 0.9), None, id="no better elsewhere"),
        pytest.param(0.5, (1.0, 0.3), None, id="little better elsewhere"),
        pytest.param(0.5, (1.0, 0.1), 1, id="much better elsewhere"),
        pytest.param(0.2, (1.0, 1.0, 0.1, 0.9), 2, id="the best of them"),
        pytest.param(0.0, (1.0,), None, id="no other core"),
    ],
)
def test_a_core_is_left_for_one_with_much_more_room(
    own: float, busy: tuple[float, ...], expected: int | None
) -> None:
    assert better_core(0, *used(own, *busy), Always()) == expected


def test_of_two_workers_that_should_move_only_some_do_at_once() -> None:
    assert better_core(0, *used(0.5, 1.0, 0.0), Never()) is None


def test_cores_with_about_as_much_room_are_chosen_by_chance() -> None:
    usage = used(0.5, 1.0, 0.05, 0.0, 0.5)
    assert {better_core(0, *usage, random.Random(seed)) for seed in range(50)} == {None, 1, 2}


def test_nothing_is_decided_without_time_or_sight() -> None:
    before, after = used(0.0, 1.0, 0.0)
    assert better_core(0, after, after, Always()) is None
    assert better_core(7, before, after, Always()) is None


def test_busy_is_what_is_neither_idle_nor_waiting() -> None:
    cores = ["cpu  9 9 9 9 9 9 9 9 9 9", "cpu0 1 2 4 800 1600 8 16 32 0 0", "cpu12 0 0 0 5 0 0 0 0"]
    stat = "\n".join([*cores, "intr 3 4", ""])
    assert busy_seconds(stat, 100) == {0: 0.63, 12: 0.0}


@needs_affinity
def test_this_system_tells_how_busy_its_cores_are() -> None:
    cores = os.sched_getaffinity(0)
    usage = read_usage(cores)
    assert usage is not None
    assert usage.busy.keys() == cores
    assert all(seconds > 0 for seconds in usage.busy.values())


def test_cores_that_cannot_be_seen_are_not_kept_to() -> None:
    assert read_usage({100_000}) is None


def in_a_process_of_its_own(body: str) -> None:
    """Other tests run in this one's threads."""
    child = multiprocessing.get_context("spawn").Process(target=globals()[body])
    child.start()
    child.join(60)
    assert child.exitcode == 0


@needs_two_cores
@pytest.mark.parametrize(
    "body", ["_keeps_all_threads_together", "_moves_and_leaves", "_without_sight_stays_free"]
)
def test_in_a_real_process(body: str) -> None:
    in_a_process_of_its_own(body)


def _cores_of_threads() -> set[frozenset[int]]:
    found = set()
    for thread in Path("/proc/self/task").iterdir():
        found.add(frozenset(os.sched_getaffinity(int(thread.name))))
    return found


def _keeps_all_threads_together() -> None:
    end = threading.Event()
    threading.Thread(target=end.wait).start()
    kept = OneCore()
    threading.Thread(target=end.wait).start()
    assert kept.core is not None
    assert _cores_of_threads() == {frozenset({kept.core})}
    end.set()


def _moves_and_leaves() -> None:
    cores = os.sched_getaffinity(0)
    seconds = 0.0
    crowded: set[int] = set()

    def usage(seen: Collection[int]) -> Usage:
        return Usage(dict.fromkeys(seen, 0.0) | dict.fromkeys(crowded, seconds), 0.0, seconds)

    kept = OneCore(usage=usage, rng=Always())
    first = kept.core
    assert first is not None
    crowded.add(first)
    seconds = 1.0
    kept.look()
    assert kept.core not in (None, first)
    assert _cores_of_threads() == {frozenset({kept.core})}
    kept.leave()
    assert _cores_of_threads() == {frozenset(cores)}


def _without_sight_stays_free() -> None:
    cores = os.sched_getaffinity(0)
    kept = OneCore(usage=lambda _: None)
    kept.look()
    assert kept.core is None
    assert _cores_of_threads() == {frozenset(cores)}
