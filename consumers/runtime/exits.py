"""How a worker process ends. The code says what an operator has to look at."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Exit(IntEnum):
    """Process exit codes, all below the range that shells use for signals."""

    OK = 0
    """Stopped as asked: what was in flight reached a safe place, what is done is committed."""
    CONFIG = 64
    """A setting, topic, group or credential is wrong; the message names it. No restart helps."""
    UNCOMMITTED = 65
    """Stopped as asked, but the grace period ended with calls in progress, or the brokers did not
    acknowledge the last commit. Nothing is lost: the next owner does that work again."""
    TASK_FAILED = 66
    """A task raised what nobody handles: a bug. Its offset is not committed."""
    LOOP_FAILED = 67
    """The control loop or one of its rebalance callbacks raised: a bug. Stopped without commit of
    anything that was not done."""
    LOOP_STUCK = 68
    """The control loop hung; the stacks of all threads are on stderr."""
    PARTITION_STUCK = 69
    """A partition with lag did not move, not even after it was sought and assigned again."""
    OFFSET_LOST = 70
    """The committed offset is outside of what the broker still holds: records are gone, or the
    topic was made anew. Needs a decision (reset the group's offsets), never made silently."""
    FENCED = 71
    """The client says that it can't go on: another process uses the same static membership id, or
    the idempotent producer failed fatally. A restart makes a new client."""
    ASSIGN_FAILED = 72
    """Committed offsets could not be read in time during an assignment. A restart tries again."""
    STORE_REFUSED = 73
    """For the application: the object store does not keep a promise that the design rests on."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a worker stopped by itself. ``message`` is one sentence or two for an operator, without
    anything that came in a record."""

    code: Exit
    message: str
