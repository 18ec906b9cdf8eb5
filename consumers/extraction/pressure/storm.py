"""Stops a dead-letter storm: when everything starts to be refused, the fault is rarely in the
documents. Pure.

Reasons that come from the service (refused, failed, not an image, ...) pass through here before
they become dead letters. After refusals of ``threshold`` different bundles in a row with no success
between them the storm is on: intake pauses but for one event per ``probe_interval_s``, and refused
documents are held instead of dead-lettered. The first success anywhere ends it; what was held is
then judged again.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class DeadLetterStorm:
    threshold: int = 10
    probe_interval_s: float = 5.0
    on: bool = False
    _bundles: set[str] = field(default_factory=set)
    _next_probe: float = 0.0

    def refused(self, bundle_id: str, now: float) -> bool:
        """A document of ``bundle_id`` is about to be dead-lettered; True: hold it instead."""
        if not self.on:
            self._bundles.add(bundle_id)
            if len(self._bundles) >= self.threshold:
                self.on = True
                self._next_probe = now + self.probe_interval_s
        return self.on

    def succeeded(self) -> None:
        """Some document got its result: refusals so far were their own fault."""
        self.on = False
        self._bundles.clear()

    def admits(self, now: float) -> bool:
        """May events be taken in now? While the storm is on: until one was, once per interval."""
        return not self.on or now >= self._next_probe

    def taken(self, now: float) -> None:
        """An event was taken in."""
        if self.on:
            self._next_probe = now + self.probe_interval_s
