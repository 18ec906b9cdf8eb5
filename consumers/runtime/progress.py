"""Notices partitions that are alive but dead: assigned, not paused, with lag, and not moving.

Pure: the control loop feeds it and carries out the steps it answers.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from consumers.runtime.observer import WatchdogStep
from consumers.runtime.offsets import Partition

_STEPS: tuple[WatchdogStep, ...] = ("seek", "reassign", "exit")


@dataclass(slots=True)
class _Watched:
    epoch: int
    position: int
    since: float
    steps: int = 0


class ProgressWatch:
    """One stuck period leads to ``seek``; a second one in a row to ``reassign``; a third to
    ``exit``. Any movement starts over."""

    def __init__(self, after: float) -> None:
        """:param after: seconds without movement until a step is taken."""
        self._after = after
        self._watched: dict[Partition, _Watched] = {}

    def idle(
        self, partition: Partition, *, epoch: int, position: int, paused: bool, now: float
    ) -> bool:
        """Feed one observation. True: it has not moved for the whole period, so find out whether
        there is lag and call `stuck` or `healthy`."""
        watched = self._watched.get(partition)
        if watched is None or paused or watched.epoch != epoch or watched.position != position:
            self._watched[partition] = _Watched(epoch, position, now)
            return False
        return now - watched.since >= self._after

    def healthy(self, partition: Partition, now: float) -> None:
        """There was nothing to fetch."""
        watched = self._watched[partition]
        watched.since, watched.steps = now, 0

    def unknown(self, partition: Partition, now: float) -> None:
        """Whether there is lag could not be found out (an outage): ask again after a period."""
        self._watched[partition].since = now

    def stuck(self, partition: Partition, now: float) -> WatchdogStep:
        """There was lag: what to do."""
        watched = self._watched[partition]
        step = _STEPS[min(watched.steps, len(_STEPS) - 1)]
        watched.steps += 1
        watched.since = now
        return step

    def forget(self, partitions: Collection[Partition]) -> None:
        """They are not owned any more."""
        for partition in partitions:
            self._watched.pop(partition, None)
