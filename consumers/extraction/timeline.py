"""Where a document's time went: exactly one cause at any moment, so the parts make up the whole."""

from __future__ import annotations

from consumers.runtime.clock import Clock


class During:
    """A `with` block of `Timeline.during`; a class, for a document has two dozen of them."""

    __slots__ = ("_before", "_cause", "_timeline")

    def __init__(self, timeline: Timeline, cause: str) -> None:
        self._timeline = timeline
        self._cause = cause

    def __enter__(self) -> None:
        self._before = self._timeline.cause
        self._timeline.enter(self._cause)

    def __exit__(self, *_: object) -> None:
        self._timeline.enter(self._before)


class Timeline:
    """Starts in ``queue`` with the time that the event had waited before it was taken in."""

    __slots__ = ("_clock", "cause", "seconds", "since", "started", "waited_s")

    def __init__(self, clock: Clock, *, waited_s: float) -> None:
        self._clock = clock
        self.started = self.since = clock.monotonic()
        """``since`` when the present cause holds."""
        self.waited_s = max(waited_s, 0.0)
        """Before ``started``, by the event's timestamp."""
        self.cause = "queue"
        self.seconds: dict[str, float] = {"queue": self.waited_s}

    def enter(self, cause: str) -> None:
        now = self._clock.monotonic()
        self.seconds[self.cause] = self.seconds.get(self.cause, 0.0) + now - self.since
        self.since = now
        self.cause = cause

    def during(self, cause: str) -> During:
        """``cause`` for a while, then what was before."""
        return During(self, cause)

    def move(self, seconds: float, source: str, target: str) -> None:
        """What was taken for ``source`` turns out to have been ``target`` (never more than there
        is): how long a job had been finished is only known once its end is seen."""
        moved = max(0.0, min(seconds, self.seconds.get(source, 0.0)))
        self.seconds[source] = self.seconds.get(source, 0.0) - moved
        self.seconds[target] = self.seconds.get(target, 0.0) + moved

    def total(self) -> float:
        self.enter(self.cause)
        return sum(self.seconds.values())
