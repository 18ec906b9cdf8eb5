"""Where an event came from, as far as the job needs to know: for dead letters and waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Origin:
    """A record as received: original bytes and its place. ``timestamp_ms`` since 1970, or None."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    group: str
    key: bytes | None = field(repr=False)
    value: bytes | None = field(repr=False)
    headers: Sequence[tuple[str, bytes | None]] = field(default=(), repr=False)
    maybe_seen: bool = True
    """Another worker may have had this very record (before a crash or a rebalance)."""
