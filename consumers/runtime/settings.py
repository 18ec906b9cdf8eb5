"""Everything about the Kafka side that a deployment may want to set.

Facts behind the defaults are in DESIGN.md. Times are seconds, as floats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from consumers.runtime.offset_metadata import BROKER_LIMIT

ClientValue = str | int | float | bool


class SettingError(ValueError):
    """A setting cannot work; the text names it and says what to do."""


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    """Settings of one worker's Kafka side. Wrong ones raise `SettingError` when made."""

    bootstrap_servers: str
    group_id: str
    topics: tuple[str, ...]

    group_protocol: Literal["classic", "consumer"] = "classic"
    """``consumer`` = the protocol of Kafka 4 (KIP-848), where the broker makes the assignments."""
    assignor: str = "cooperative-sticky"
    """Of the classic protocol only. ``range`` and ``roundrobin`` stop the world to rebalance."""
    start_from: Literal["earliest", "latest"] = "earliest"
    """Where a group with no committed offset starts. Never used in any other case: a committed
    offset that the broker no longer holds stops the worker (`Exit.OFFSET_LOST`)."""
    client: Mapping[str, ClientValue] = field(default_factory=dict)
    """librdkafka properties for consumer and producer alike, e.g. TLS and SASL."""
    consumer: Mapping[str, ClientValue] = field(default_factory=dict)
    """librdkafka properties of the consumer; they win over everything else."""
    producer: Mapping[str, ClientValue] = field(default_factory=dict)
    """librdkafka properties of the producer; they win over everything else."""

    session_timeout: float = 10.0
    """Of the classic protocol only (else the broker's setting counts): how long a member that died
    without a word keeps its partitions."""
    max_poll_interval: float = 60.0
    """The control loop polls every few milliseconds, so this only detects a hang. It does not
    limit how long an event may take."""
    grace: float = 25.0
    """From the signal to the end of the process. Keep it below the orchestrator's own."""
    commit_interval: float = 2.0
    """Between two asynchronous commits."""
    assign_timeout: float = 30.0
    """For reading committed offsets during an assignment, e.g. while a coordinator comes back;
    beyond it the process ends. At most half of ``max_poll_interval`` is used."""
    loop_stuck_after: float = 15.0
    """A control loop without a sign of life for this long ends the process."""
    partition_stuck_after: float = 60.0
    """A partition with lag that does not move for this long is sought again, then assigned again,
    then ends the process."""

    in_flight_high: int = 2000
    """Events in flight at which all partitions are paused..."""
    in_flight_low: int = 1400
    """...and at or below which they are resumed."""
    window: int = 10_000
    """How far one partition may run ahead of its committed offset, in offsets."""
    window_low: float = 0.7
    """Share of the window at or below which a partition that was full is resumed."""
    metadata_limit: int = BROKER_LIMIT
    """The broker's ``offset.metadata.max.bytes``."""
    poll_burst: int = 200
    """Records taken from the client per turn of the loop."""
    idle_wait: float = 0.01
    """How long the loop waits when there is nothing to do; bounds the latency of a new record."""

    def __post_init__(self) -> None:
        for name in ("bootstrap_servers", "group_id", "topics"):
            if not getattr(self, name):
                raise SettingError(f"{name} is empty: set it")
        for name in (
            "session_timeout",
            "max_poll_interval",
            "grace",
            "commit_interval",
            "assign_timeout",
            "loop_stuck_after",
            "partition_stuck_after",
            "idle_wait",
            "window",
            "poll_burst",
            "in_flight_high",
        ):
            if getattr(self, name) <= 0:
                raise SettingError(f"{name} is {getattr(self, name)}: it must be above 0")
        if not 0 <= self.in_flight_low < self.in_flight_high:
            raise SettingError(
                f"in_flight_low ({self.in_flight_low}) must be below in_flight_high "
                f"({self.in_flight_high})"
            )
        if not 0 <= self.window_low < 1:
            raise SettingError(f"window_low is {self.window_low}: it must be in [0, 1)")
        if self.group_protocol not in ("classic", "consumer"):
            raise SettingError(f"group_protocol is {self.group_protocol!r}: classic or consumer")
        if self.start_from not in ("earliest", "latest"):
            raise SettingError(f"start_from is {self.start_from!r}: earliest or latest")

    @property
    def revoke_deadline(self) -> float:
        """For all that happens while partitions are given up: one deadline, seconds."""
        return min(0.2 * self.max_poll_interval, self.grace / 2)

    @property
    def assign_deadline(self) -> float:
        """For all that happens while partitions are taken over, seconds."""
        return min(self.assign_timeout, 0.5 * self.max_poll_interval)

    @property
    def incremental(self) -> bool:
        """Rebalances name what is added and removed, not the whole new assignment."""
        return self.group_protocol == "consumer" or self.assignor == "cooperative-sticky"
