"""What a worker is doing, as a value that any thread may read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from consumers.runtime.observer import PauseReason
from consumers.runtime.pools import PoolStats


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One owned partition."""

    topic: str
    partition: int
    epoch: int
    committed: int | None
    position: int
    """The highest offset delivered + 1."""
    lag: int | None
    """Records not yet delivered, by the last watermark heard; None when none was."""
    in_flight: int
    done_ahead: int
    """Done, but waiting for an earlier offset before they can be committed."""
    window_fullness: float
    oldest_in_flight_offset: int | None
    oldest_in_flight_seconds: float
    oldest_in_flight_timestamp_ms: int | None
    paused: PauseReason | None


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """Taken on the control thread about once a second, so it stands still when the loop hangs:
    compare ``taken_at`` or ask `Worker.loop_age`."""

    taken_at: float
    """Seconds since 1970."""
    state: Literal["starting", "running", "stopping", "stopped"]
    partitions: tuple[PartitionStatus, ...]
    in_flight: int
    sleeping: int
    """Tasks waiting for time."""
    publishing: int
    """Records whose acknowledgement is awaited."""
    commits_outstanding: int
    intake_stopped: PauseReason | None
    """Why nothing at all is delivered; a partition may have its own reason."""
    pools: Mapping[str, PoolStats]
    assignments: int
