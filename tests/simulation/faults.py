"""What goes wrong: at random by rate, for a while by window, or exactly as a test says."""

from __future__ import annotations

import random
from collections import Counter, deque
from dataclasses import dataclass, field

from tests.simulation.agenda import Agenda
from tests.store_fakes import StoreFault

STORE_RATES = {f"store.{fault.name}": 0.08 for fault in StoreFault}
SOURCE_RATES = {
    f"source.{fault.name}": 0.08
    for fault in (
        StoreFault.REFUSED_CONNECTION,
        StoreFault.UNAVAILABLE_503,
        StoreFault.THROTTLED_503,
        StoreFault.ACCESS_DENIED,
        StoreFault.SLOW,
    )
}
SERVICE_RATES = {
    "submit.answer_lost": 0.2,
    "submit.request_lost": 0.2,
    "submit.http_500": 0.1,
    "service.throttled": 0.15,
    "service.unreachable": 0.05,
    "service.unauthorized": 0.03,
    "service.bad_gateway": 0.05,
    "poll.not_found": 0.15,
    "poll.failed": 0.1,
    "poll.unknown_status": 0.2,
    "service.forgets": 0.05,
    "images.failed": 0.1,
    "download.expired": 0.2,
    "download.truncated": 0.1,
    "forget.failed": 0.3,
}
OTHER_RATES = {
    "publish.refused": 0.1,
    "publish.stored_but_refused": 0.1,
    "commit.refused": 0.2,
    "commit.answer_lost": 0.1,
    "sandbox.unavailable": 0.05,
    "sandbox.disk_full": 0.03,
}
ALL_RATES = {**STORE_RATES, **SOURCE_RATES, **SERVICE_RATES, **OTHER_RATES}

OUTAGES = ("service", "unauthorized", "store", "source", "broker", "sandbox")
RETRY_AFTERS = (None, 0.0, 0.25, 1.0, 5.0, 30.0, 1e9)


@dataclass(frozen=True, slots=True)
class Outage:
    what: str
    begins: float
    ends: float


@dataclass
class Faults:
    """Random faults end at ``until`` (virtual seconds), so that what follows must come right.

    `counted` remembers what was done to whom: a dead letter has to be explained by it.
    """

    agenda: Agenda
    rng: random.Random
    rates: dict[str, float]
    until: float
    outages: tuple[Outage, ...] = ()
    scripted: dict[str, deque[bool]] = field(default_factory=dict)
    counted: Counter[tuple[str, str]] = field(default_factory=Counter)

    def hits(self, name: str, victim: str = "") -> bool:
        """Does ``name`` happen now, to ``victim``?"""
        queue = self.scripted.get(name)
        if queue:
            hit = queue.popleft()
        else:
            rate = self.rates.get(name, 0.0)
            hit = rate > 0 and self.agenda.now < self.until and self.rng.random() < rate
        if hit:
            self.counted[name, victim] += 1
        return hit

    def down(self, what: str) -> bool:
        now = self.agenda.now
        return any(o.what == what and o.begins <= now < o.ends for o in self.outages)

    def count(self, victim: str, *names: str) -> int:
        return sum(self.counted[name, victim] for name in names)
