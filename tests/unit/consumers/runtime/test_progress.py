"""The watch over partitions that are alive but dead."""

from __future__ import annotations

from consumers.runtime.offsets import Partition
from consumers.runtime.progress import ProgressWatch

P = Partition("events", 0)


class Watching:
    """Observes one partition; ``idle`` after ``seconds`` more."""

    def __init__(self) -> None:
        self.watch = ProgressWatch(10)
        self.now = 0.0

    def idle_after(
        self, seconds: float, *, position: int = 5, epoch: int = 1, paused: bool = False
    ) -> bool:
        self.now += seconds
        return self.watch.idle(P, epoch=epoch, position=position, paused=paused, now=self.now)


def test_steps_escalate_one_per_period_without_movement() -> None:
    w = Watching()
    w.idle_after(0)
    steps = []
    for _ in range(4):
        assert not w.idle_after(9)
        assert w.idle_after(1)
        steps.append(w.watch.stuck(P, w.now))
    assert steps == ["seek", "reassign", "exit", "exit"]


def test_movement_starts_over() -> None:
    w = Watching()
    w.idle_after(0)
    assert w.idle_after(10)
    assert w.watch.stuck(P, w.now) == "seek"
    assert not w.idle_after(5, position=6)
    assert w.idle_after(10, position=6)
    assert w.watch.stuck(P, w.now) == "seek"


def test_a_pause_and_a_new_epoch_start_over() -> None:
    w = Watching()
    w.idle_after(0)
    assert not w.idle_after(100, paused=True)
    assert not w.idle_after(9)
    assert not w.idle_after(9, epoch=2)
    assert w.idle_after(10, epoch=2)


def test_no_lag_forgets_the_steps_and_an_outage_keeps_them() -> None:
    w = Watching()
    w.idle_after(0)
    w.idle_after(10)
    w.watch.stuck(P, w.now)
    w.idle_after(10)
    w.watch.unknown(P, w.now)
    assert not w.idle_after(9)
    assert w.idle_after(1)
    assert w.watch.stuck(P, w.now) == "reassign"
    w.idle_after(10)
    w.watch.healthy(P, w.now)
    w.idle_after(10)
    assert w.watch.stuck(P, w.now) == "seek"


def test_a_forgotten_partition_is_watched_anew() -> None:
    w = Watching()
    w.idle_after(0)
    w.watch.forget([P])
    assert not w.idle_after(100)
