"""A record as the runtime hands it to the application."""

from __future__ import annotations

from dataclasses import dataclass

from consumers.runtime.offsets import Partition


@dataclass(frozen=True, slots=True)
class Delivery:
    """One record, its bytes untouched. ``epoch`` is the ownership under which it was delivered.

    ``timestamp_ms`` is what the record carries (milliseconds since 1970), or -1 for none.
    ``key``/``value`` may be None (a tombstone) or empty.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    epoch: int
    maybe_seen: bool = True
    """False: its offset was not written yet when this worker took the partition over, so nobody
    can have had this very record before."""

    @property
    def source(self) -> Partition:
        """The partition that it came from."""
        return Partition(self.topic, self.partition)
