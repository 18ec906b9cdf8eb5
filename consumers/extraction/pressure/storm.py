"""Stops a dead-letter storm: when everything starts to be refused, the fault is rarely in the
documents. Pure.

Reasons that come from the service (refused, failed, not an image, ...) pass through here before
they become dead letters. After refusals of ``threshold`` different bundles in a row with no success
between them the storm is on: intake pauses, refused documents are held instead of dead-lettered,
and one at a time, a new event or a held document, is tried: after ``probe_interval_s``, then ever
more rarely up to ``probe_ceiling_s``. A held one must be able to be that probe, or a storm would
never end where no new event comes. The first success anywhere ends it; what was held is then judged
again.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class DeadLetterStorm:
    threshold: int = 10
    probe_interval_s: float = 5.0
    probe_ceiling_s: float = 30.0
    on: bool = False
    _bundles: set[str] = field(default_factory=set)
    _wait_s: float = 0.0
    _next_probe: float = 0.0

    def refused(self, bundle_id: str, now: float) -> bool:
        """A document of ``bundle_id`` is about to be dead-lettered; True: hold it instead."""
        if not self.on:
            self._bundles.add(bundle_id)
            if len(self._bundles) >= self.threshold:
                self.on = True
                self._wait_s = self.probe_interval_s
                self._next_probe = now + self._wait_s
        return self.on

    def succeeded(self) -> None:
        """Some document got its result: refusals so far were their own fault."""
        self.on = False
        self._bundles.clear()

    def admits(self, now: float) -> bool:
        """May events be taken in now? While the storm is on: one, when it is time for a probe."""
        return not self.on or now >= self._next_probe

    def taken(self, now: float) -> None:
        """An event was taken in; during a storm it is the probe."""
        if self.on:
            self._probed(now)

    def probes(self, now: float) -> bool:
        """May the held document that asks be tried again now, as the probe?"""
        if not self.on or now < self._next_probe:
            return False
        self._probed(now)
        return True

    def _probed(self, now: float) -> None:
        self._next_probe = now + self._wait_s
        self._wait_s = min(self._wait_s * 2, self.probe_ceiling_s)
