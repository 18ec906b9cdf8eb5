"""The record that the scheduler keeps of each generator it drives."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from enum import Enum, auto
from typing import Any

from consumers.runtime.effects import Outcome, Task
from consumers.runtime.limiter import Request
from consumers.runtime.pools import Job


class TaskClosed(Exception):
    """The task was ended from outside, at a place where that is safe."""


class State(Enum):
    NEW = auto()
    READY = auto()
    RUNNING = auto()
    PERFORMING = auto()
    SLEEPING = auto()
    ACQUIRING = auto()
    ACQUIRING_THROUGH_DRAIN = auto()
    PUBLISHING = auto()
    JOINING = auto()
    ENDED = auto()


class Run:
    """One generator being driven: a started task, or a child of a `Together`."""

    __slots__ = (
        "cancelled",
        "children",
        "closed_child",
        "draining",
        "error",
        "on_end",
        "outcomes",
        "parent",
        "slot",
        "state",
        "tag",
        "task",
        "unfinished",
        "value",
        "waiting_on",
    )

    def __init__(self, task: Task, parent: Run | None = None, slot: int = 0) -> None:
        self.task = task
        self.parent = parent
        self.slot = slot
        self.state = State.NEW
        self.value: Any = None
        self.error: BaseException | None = None
        self.waiting_on: Job | Request | None = None
        # Of a parent in `Together`:
        self.children: list[Run] = []
        self.outcomes: list[Outcome] = []
        self.unfinished = 0
        self.closed_child = False
        # Of a root:
        self.tag: Hashable = None
        self.on_end: Callable[[Outcome], None] | None = None
        self.draining = False
        self.cancelled = False

    @property
    def root(self) -> Run:
        """Climbed to each time: a run that held itself would be left to the cycle collector."""
        run = self
        while run.parent is not None:
            run = run.parent
        return run
