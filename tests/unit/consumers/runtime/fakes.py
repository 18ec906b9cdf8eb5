"""Stand-ins that the runtime's unit tests share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from consumers.runtime.effects import Message, PublishRefused
from consumers.runtime.scheduler import Scheduler


class FakeClock:
    """Time moves only when the test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return 1_700_000_000.0 + self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class FakeDeliveries:
    """A publisher whose delivery reports come when the test calls ``deliver``."""

    sent: list[Message] = field(default_factory=list)
    waiting: list[Callable[[PublishRefused | None], None]] = field(default_factory=list)

    def publish(
        self, message: Message, on_delivery: Callable[[PublishRefused | None], None]
    ) -> None:
        self.sent.append(message)
        self.waiting.append(on_delivery)

    def poll(self) -> None:
        pass

    @property
    def outstanding(self) -> int:
        return 0

    def deliver(self, refused: PublishRefused | None = None) -> None:
        self.waiting.pop(0)(refused)


class Gate:
    """A pool call that says when it has started and ends when the test opens it."""

    def __init__(self, result: object = None) -> None:
        self.result = result
        self._started = threading.Event()
        self._open = threading.Event()

    def __call__(self) -> object:
        self._started.set()
        assert self._open.wait(30), "the test never opened the gate"
        return self.result

    @property
    def started(self) -> bool:
        return self._started.is_set()

    def wait_started(self) -> None:
        assert self._started.wait(30), "the call never ran"

    def open(self) -> None:
        self._open.set()


def step_until(scheduler: Scheduler, condition: Callable[[], bool], steps: int = 2000) -> None:
    """Step until ``condition`` holds; a real pool thread may be involved, so each step may wait."""
    for _ in range(steps):
        if condition():
            return
        scheduler.step(0.01)
    raise AssertionError("the condition never came true")
