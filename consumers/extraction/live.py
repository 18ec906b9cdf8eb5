"""What is in progress now, for the status page: belongs to the control thread, costs a dictionary
entry per document."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from schemas.reasons import Reason

if TYPE_CHECKING:
    from consumers.extraction.scope import Scope

RECENT = 50


@dataclass(slots=True)
class LiveJob:
    """A job of one shard. Moments are monotonic seconds."""

    provider: str
    state: str = "planned"
    """planned, fetching, waiting_for_slot, submitting, running."""
    since: float | None = None
    polls: int = 0
    next_poll_at: float | None = None

    def enters(self, state: str, now: float) -> None:
        self.state, self.since, self.next_poll_at = state, now, None


@dataclass(frozen=True, slots=True)
class RecentDeadLetter:
    """``at``: Unix seconds."""

    at: float
    reason: Reason
    stage: str
    extraction_id: str | None


@dataclass(slots=True)
class LiveDocuments:
    """Documents between accept and their end, and the dead letters of late."""

    reasons: Counter[Reason] = field(default_factory=Counter)
    """Dead letters since the start."""
    recent: deque[RecentDeadLetter] = field(default_factory=lambda: deque(maxlen=RECENT))
    _scopes: dict[Scope, None] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._scopes)

    def __iter__(self) -> Iterator[Scope]:
        """Oldest first."""
        return iter(self._scopes)

    def oldest(self, count: int) -> list[Scope]:
        return list(islice(self._scopes, count))

    def began(self, scope: Scope) -> None:
        self._scopes[scope] = None

    def ended(self, scope: Scope) -> None:
        self._scopes.pop(scope, None)

    def dead_lettered(self, scope: Scope, reason: Reason, stage: str) -> None:
        self.reasons[reason] += 1
        self.recent.append(RecentDeadLetter(scope.clock.time(), reason, stage, scope.extraction_id))
