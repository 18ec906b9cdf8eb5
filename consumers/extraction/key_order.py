"""Events of one key one after the other, where a policy asks for it."""

from __future__ import annotations

from weakref import WeakValueDictionary

from consumers.runtime.limiter import Limiter


class KeyOrder:
    """One place per key. Events are started in the order of their partition, and a limiter serves
    the waiters of one share in the order in which they came, so order is kept."""

    def __init__(self) -> None:
        # A limiter lives as long as somebody holds or waits for its place.
        self._limiters: WeakValueDictionary[bytes, Limiter] = WeakValueDictionary()

    def limiter(self, key: bytes | None) -> Limiter:
        """Of ``key``; events without a key share one."""
        name = key or b""
        found = self._limiters.get(name)
        if found is None:
            found = self._limiters[name] = Limiter(1)
        return found
