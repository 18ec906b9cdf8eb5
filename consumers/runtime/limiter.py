"""A bound on how many tasks do something at the same time, fair between shares.

Waiting places are ordered by a *turn*, a virtual time that moves on with every grant. The first
waiter of a share gets the turn ``now + 1 + places its share holds``; every later one gets its turn
when it becomes the first. So a bundle of a thousand documents takes about as many places as each
of its small neighbours and no more, while a turn once given is never overtaken by later arrivals
for long: nothing starves, whatever keeps arriving.

Pure: no clock, no threads, no I/O. Everything happens on the thread that calls.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable


class Permit:
    """One place. Whoever holds it must call `release` exactly when the work ends."""

    __slots__ = ("_limiter", "_share")

    def __init__(self, limiter: Limiter, share: str) -> None:
        self._limiter: Limiter | None = limiter
        self._share = share

    def release(self) -> None:
        """Give the place back; a second call does nothing, so it is safe in any ``finally``."""
        limiter, self._limiter = self._limiter, None
        if limiter is not None:
            limiter._release(self._share)


class Request:
    """One waiter; made by `Limiter.request`."""

    __slots__ = ("_limiter", "_on_grant", "_share")

    def __init__(self, limiter: Limiter, share: str, on_grant: Callable[[Permit], None]) -> None:
        self._limiter = limiter
        self._share = share
        self._on_grant: Callable[[Permit], None] | None = on_grant

    @property
    def waiting(self) -> bool:
        """Neither granted nor cancelled."""
        return self._on_grant is not None

    def cancel(self) -> None:
        """Leave the queue. Does nothing once granted: the permit must be released instead."""
        if self._on_grant is not None:
            self._on_grant = None
            self._limiter._waiting -= 1


class _Share:
    __slots__ = ("held", "queue")

    def __init__(self) -> None:
        self.held = 0
        self.queue: deque[Request] = deque()


class Limiter:
    """``capacity`` places, handed out fairly per share (see the module)."""

    def __init__(self, capacity: int) -> None:
        """:raises ValueError: capacity below 1."""
        if capacity < 1:
            raise ValueError(f"a limiter needs a capacity of at least 1, not {capacity}")
        self.capacity = capacity
        self._in_use = 0
        self._waiting = 0
        self._now = 0
        self._arrivals = 0
        self._shares: dict[str, _Share] = {}
        # The first waiter of each share: (turn, arrival, share name).
        self._turns: list[tuple[int, int, str]] = []

    @property
    def in_use(self) -> int:
        """Permits given and not yet released."""
        return self._in_use

    @property
    def waiting(self) -> int:
        """Requests neither granted nor cancelled."""
        return self._waiting

    def free_place(self, share: str) -> Permit | None:
        """A place, where one is free and nobody waits to whom to be fair."""
        if self._turns or self._in_use >= self.capacity:
            return None
        entry = self._entry(share)
        self._hold(entry, self._now + 1 + entry.held)
        return Permit(self, share)

    def request(self, share: str, on_grant: Callable[[Permit], None]) -> Request:
        """Ask for a place. ``on_grant`` is called with the permit: at once when a place is free,
        otherwise from inside a later ``release()``."""
        request = Request(self, share, on_grant)
        permit = self.free_place(share)
        if permit is not None:
            request._on_grant = None
            on_grant(permit)
            return request
        entry = self._entry(share)
        self._waiting += 1
        entry.queue.append(request)
        if len(entry.queue) == 1:
            self._take_turn(share, entry)
        self._grant()
        return request

    def _entry(self, share: str) -> _Share:
        entry = self._shares.get(share)
        if entry is None:
            entry = self._shares[share] = _Share()
        return entry

    def _take_turn(self, share: str, entry: _Share) -> None:
        self._arrivals += 1
        heapq.heappush(self._turns, (self._now + 1 + entry.held, self._arrivals, share))

    def _grant(self) -> None:
        while self._in_use < self.capacity and self._turns:
            turn, _, share = heapq.heappop(self._turns)
            entry = self._shares[share]
            request = entry.queue.popleft()
            on_grant, request._on_grant = request._on_grant, None
            if on_grant is not None:
                self._hold(entry, turn)
                self._waiting -= 1
            if entry.queue:
                self._take_turn(share, entry)
            self._forget_if_idle(share, entry)
            if on_grant is not None:
                on_grant(Permit(self, share))

    def _hold(self, entry: _Share, turn: int) -> None:
        self._now = max(self._now, turn)
        self._in_use += 1
        entry.held += 1

    def _release(self, share: str) -> None:
        entry = self._shares[share]
        entry.held -= 1
        self._in_use -= 1
        self._forget_if_idle(share, entry)
        self._grant()

    def _forget_if_idle(self, share: str, entry: _Share) -> None:
        # Shares are bundle ids: without this they would pile up for the life of the process.
        if not entry.held and not entry.queue:
            del self._shares[share]
