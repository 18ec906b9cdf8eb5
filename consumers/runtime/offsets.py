"""Which offsets may be committed: the offset ledger of one group member.

Pure: no clock, no I/O, no Kafka client. Every way in which offsets go wrong is decided here and
nowhere else.

Words: an offset is *delivered* when Kafka handed it to us, *pending* until its event is settled,
then *done*. The *position* of a partition is what may be committed: the lowest pending offset, or
the highest delivered one + 1 when nothing is pending.

Invariants (property-tested under these numbers):

I1  Nothing is lost: every delivered offset below the position is done.
I2  The position never goes back while a partition is owned, nor does what is given out to commit.
I3  Gaps are normal (compaction, transaction markers): only delivered offsets count, and the
    position never rests on an offset that was not delivered, other than the start and the one
    after the highest delivered.
I4  Only the latest delivery of an offset, in the current epoch of its partition, can complete it.
    A completion after a revoke, or of a delivery that was replaced, changes nothing.
I5  When every delivered offset is done, the position is the highest of them + 1.
I6  An offset is skipped on re-delivery only if it is done: below the position, completed in this
    epoch, or named by intact metadata of exactly the offset that is committed. What such metadata
    names is never processed again, over any number of moves.
I7  Metadata never exceeds its limit; when it cannot be written the offset is committed without.
I8  Revoke, loss or completion of a partition that is not owned changes nothing.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from consumers.runtime.offset_metadata import BROKER_LIMIT, MetadataVerdict, decode, encode


class Partition(NamedTuple):
    """A partition's full name."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.number}]"


class Ticket(NamedTuple):
    """One delivery of one offset: what completes it. Tickets of earlier epochs or deliveries are
    worthless."""

    partition: Partition
    offset: int
    epoch: int
    generation: int


class Skip(StrEnum):
    """Why a delivered record must not be processed."""

    ALREADY_DONE = "already_done"
    NOT_OWNED = "not_owned"


@dataclass(frozen=True, slots=True)
class Commit:
    """``offset`` is the next one to consume. ``metadata_dropped``: done offsets did not fit."""

    partition: Partition
    offset: int
    metadata: str
    metadata_dropped: bool = False


@dataclass(frozen=True, slots=True)
class Assigned:
    """What `OffsetLedger.assigned` found."""

    epoch: int
    restored: int
    """Offsets that will be skipped on re-delivery."""
    metadata: MetadataVerdict


@dataclass(frozen=True, slots=True)
class PartitionView:
    """Numbers of one owned partition."""

    epoch: int
    committed: int | None
    """What the broker acknowledged (or had at the start); None before the first commit."""
    position: int
    """What may be committed."""
    delivered: int
    """The highest delivered offset + 1; the start when nothing was delivered."""
    pending: int
    done_ahead: int
    span: int
    """Offsets from the position to ``delivered``."""
    fullness: float
    """``span`` / window; the window is full from 1.0 on."""


class _PartitionLedger:
    def __init__(
        self,
        partition: Partition,
        epoch: int,
        start: int,
        committed: int | None,
        restored: set[int],
    ) -> None:
        self.partition = partition
        self.epoch = epoch
        self.start = start
        self.committed = committed
        self.delivered = start
        self.pending: dict[int, int] = {}  # offset -> generation of its latest delivery
        self.done: set[int] = set()  # delivered, done, above the position
        self.restored = {offset for offset in restored if offset >= start}
        # Delivered offsets not yet passed by the position, lowest first.
        self.ahead: list[int] = []
        # Start with no commit on the broker: say so there, or a restart would resolve it anew.
        self.changed = committed is None
        self.sent: tuple[int, str] | None = None

    @property
    def position(self) -> int:
        ahead = self.ahead
        while ahead and ahead[0] not in self.pending:
            self.done.discard(heapq.heappop(ahead))
        return ahead[0] if ahead else self.delivered

    def deliver(self, offset: int, generation: int) -> bool:
        if offset < self.position or offset in self.done:
            return False
        if offset in self.pending:
            self.pending[offset] = generation
            return True
        heapq.heappush(self.ahead, offset)
        self.delivered = max(self.delivered, offset + 1)
        self.changed = True
        if offset in self.restored:
            self.restored.discard(offset)
            self.done.add(offset)
            return False
        self.pending[offset] = generation
        return True

    def complete(self, ticket: Ticket) -> bool:
        # A generation is never used twice, so this covers earlier epochs as well.
        if self.pending.get(ticket.offset) != ticket.generation:
            return False
        del self.pending[ticket.offset]
        self.done.add(ticket.offset)
        self.changed = True
        return True

    def commit(self, limit: int) -> Commit | None:
        if not self.changed:
            return None
        self.changed = False
        position = self.position
        self.restored = {offset for offset in self.restored if offset >= position}
        metadata = encode(position, self.done | self.restored, limit)
        wanted = (position, metadata or "")
        if wanted == self.sent or (self.sent is None and wanted == (self.committed, "")):
            return None
        self.sent = wanted
        return Commit(self.partition, position, metadata or "", metadata is None)


class OffsetLedger:
    """The partitions that this member owns. See the module for the invariants."""

    def __init__(self, window: int = 10_000, metadata_limit: int = BROKER_LIMIT) -> None:
        """:param window: how far delivery may run ahead of the position, in offsets.
        :param metadata_limit: the broker's ``offset.metadata.max.bytes``.
        """
        if window < 1:
            raise ValueError(f"the window must be at least 1 offset, not {window}")
        self.window = window
        self.metadata_limit = metadata_limit
        self._partitions: dict[Partition, _PartitionLedger] = {}
        self._epochs = 0
        self._generations = 0

    # -- ownership -----------------------------------------------------------------------------

    def assigned(
        self,
        partition: Partition,
        start: int,
        *,
        committed: bool = True,
        metadata: str | None = None,
    ) -> Assigned:
        """Own ``partition`` from offset ``start`` on, under a new epoch. A partition that is still
        owned is taken anew: its tickets become worthless.

        :param committed: False when ``start`` was resolved because the broker held no offset; it is
            then given out to commit even before anything is done.
        :param metadata: as found beside the committed offset.
        """
        restored, verdict = decode(start, metadata) if committed else (set(), MetadataVerdict.EMPTY)
        self._epochs += 1
        self._partitions[partition] = _PartitionLedger(
            partition, self._epochs, start, start if committed else None, restored
        )
        return Assigned(self._epochs, len(restored), verdict)

    def revoked(self, partition: Partition) -> Commit | None:
        """Give the partition up. The commit, if any, is the last one and must be sent now: from
        here on every ticket of it is worthless."""
        ledger = self._partitions.pop(partition, None)
        return ledger.commit(self.metadata_limit) if ledger is not None else None

    def lost(self, partition: Partition) -> None:
        """Somebody else may own it already: forget it and commit nothing."""
        self._partitions.pop(partition, None)

    def owned(self) -> list[Partition]:
        """The partitions that are owned now."""
        return list(self._partitions)

    def epoch(self, partition: Partition) -> int | None:
        """The current epoch; None when the partition is not owned."""
        ledger = self._partitions.get(partition)
        return ledger.epoch if ledger is not None else None

    # -- records -------------------------------------------------------------------------------

    def delivered(self, partition: Partition, offset: int) -> Ticket | Skip:
        """Kafka handed over ``offset``. A delivery of an offset that is still pending replaces the
        earlier one: only the new ticket can complete it."""
        ledger = self._partitions.get(partition)
        if ledger is None:
            return Skip.NOT_OWNED
        self._generations += 1
        if not ledger.deliver(offset, self._generations):
            return Skip.ALREADY_DONE
        return Ticket(partition, offset, ledger.epoch, self._generations)

    def done(self, ticket: Ticket) -> bool:
        """The event is settled. False: the ticket is stale and nothing changed."""
        ledger = self._partitions.get(ticket.partition)
        return ledger is not None and ledger.complete(ticket)

    # -- commits -------------------------------------------------------------------------------

    def due(self) -> list[Commit]:
        """What has changed since it was last given out. The caller sends it and reports back with
        `acknowledged` or `refused`."""
        commits = (ledger.commit(self.metadata_limit) for ledger in self._partitions.values())
        return [commit for commit in commits if commit is not None]

    def acknowledged(self, partition: Partition, offset: int) -> None:
        """The broker holds ``offset`` now."""
        ledger = self._partitions.get(partition)
        if ledger is not None:
            ledger.committed = max(offset, ledger.committed or 0)

    def refused(self, partition: Partition) -> None:
        """The broker did not take the last commit: give it out again."""
        ledger = self._partitions.get(partition)
        if ledger is not None:
            ledger.sent = None
            ledger.changed = True

    # -- numbers -------------------------------------------------------------------------------

    def fullness(self, partition: Partition) -> float:
        """Share of the window in use; 0.0 when the partition is not owned."""
        ledger = self._partitions.get(partition)
        return (ledger.delivered - ledger.position) / self.window if ledger is not None else 0.0

    def view(self, partition: Partition) -> PartitionView | None:
        """Numbers of one partition; None when it is not owned."""
        ledger = self._partitions.get(partition)
        if ledger is None:
            return None
        position = ledger.position
        span = ledger.delivered - position
        return PartitionView(
            epoch=ledger.epoch,
            committed=ledger.committed,
            position=position,
            delivered=ledger.delivered,
            pending=len(ledger.pending),
            done_ahead=len(ledger.done),
            span=span,
            fullness=span / self.window,
        )
