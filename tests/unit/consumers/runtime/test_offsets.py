"""The offset ledger: the scenarios by name, then its invariants under random histories."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from consumers.runtime.offset_metadata import BROKER_LIMIT, MetadataVerdict, decode
from consumers.runtime.offsets import Commit, OffsetLedger, Partition, Skip, Ticket

P = Partition("events", 0)
Q = Partition("events", 1)


def deliver(ledger: OffsetLedger, offset: int, partition: Partition = P) -> Ticket:
    ticket = ledger.delivered(partition, offset)
    assert isinstance(ticket, Ticket)
    return ticket


def due(ledger: OffsetLedger) -> list[int]:
    return [commit.offset for commit in ledger.due()]


@pytest.fixture
def ledger() -> OffsetLedger:
    ledger = OffsetLedger()
    ledger.assigned(P, 0)
    return ledger


def test_gaps_commit_none_none_then_the_lowest_pending_then_the_end(ledger: OffsetLedger) -> None:
    tickets = {offset: deliver(ledger, offset) for offset in (0, 2, 4, 6)}
    given_out = []
    for offset in (6, 4, 0, 2):
        assert ledger.done(tickets[offset])
        given_out.append([c.offset for c in ledger.due() if c.offset != 0])
    assert given_out == [[], [], [2], [7]]


def test_nothing_delivered_gives_out_nothing(ledger: OffsetLedger) -> None:
    assert ledger.due() == []


def test_a_start_that_was_resolved_is_committed_before_anything_is_done() -> None:
    ledger = OffsetLedger()
    ledger.assigned(P, 42, committed=False)
    assert due(ledger) == [42]
    assert due(ledger) == []


def test_a_commit_is_given_out_once_and_again_when_it_was_refused(ledger: OffsetLedger) -> None:
    ledger.done(deliver(ledger, 0))
    assert due(ledger) == [1]
    assert due(ledger) == []
    ledger.refused(P)
    assert due(ledger) == [1]


def test_done_ahead_is_committed_as_metadata_even_when_the_offset_stays(
    ledger: OffsetLedger,
) -> None:
    deliver(ledger, 0)
    ledger.done(deliver(ledger, 1))
    [commit] = ledger.due()
    assert commit.offset == 0
    assert commit.metadata != ""


def test_a_new_owner_skips_what_was_done_ahead(ledger: OffsetLedger) -> None:
    slow = deliver(ledger, 0)
    for offset in (1, 2, 3):
        ledger.done(deliver(ledger, offset))
    final = ledger.revoked(P)
    assert final is not None
    assert not ledger.done(slow)

    successor = OffsetLedger()
    found = successor.assigned(P, final.offset, metadata=final.metadata)
    assert (found.restored, found.metadata) == (3, MetadataVerdict.RESTORED)
    ticket = deliver(successor, 0)
    assert [successor.delivered(P, offset) for offset in (1, 2, 3)] == [Skip.ALREADY_DONE] * 3
    successor.done(ticket)
    assert due(successor) == [4]


@pytest.mark.parametrize("done_ahead", [{1}, {2, 3}, {1, 4}])
def test_what_was_restored_survives_a_second_move_before_it_was_delivered(
    done_ahead: set[int],
) -> None:
    first = OffsetLedger()
    first.assigned(P, 0)
    tickets = {offset: deliver(first, offset) for offset in range(5)}
    for offset in done_ahead:
        first.done(tickets[offset])
    handed = first.revoked(P)
    assert handed is not None

    second = OffsetLedger()
    second.assigned(P, handed.offset, metadata=handed.metadata)
    second.done(deliver(second, 0))
    again = second.revoked(P)
    assert again is not None
    assert again.offset == 1

    third = OffsetLedger()
    assert third.assigned(P, 1, metadata=again.metadata).restored == len(done_ahead)


def test_metadata_that_does_not_fit_is_dropped_and_the_offset_committed() -> None:
    ledger = OffsetLedger(metadata_limit=10)
    ledger.assigned(P, 0)
    first = deliver(ledger, 0)
    deliver(ledger, 1)
    ledger.done(deliver(ledger, 5))
    ledger.done(first)
    [commit] = ledger.due()
    assert commit == Commit(P, 1, "", metadata_dropped=True)


def test_a_redelivered_offset_belongs_to_its_latest_delivery(ledger: OffsetLedger) -> None:
    old = deliver(ledger, 0)
    new = deliver(ledger, 0)
    assert not ledger.done(old)
    assert due(ledger) == []
    assert ledger.done(new)
    assert due(ledger) == [1]


def test_completing_twice_counts_once(ledger: OffsetLedger) -> None:
    ticket = deliver(ledger, 0)
    assert ledger.done(ticket)
    assert not ledger.done(ticket)


def test_a_done_offset_is_not_processed_again_on_redelivery(ledger: OffsetLedger) -> None:
    deliver(ledger, 0)
    ledger.done(deliver(ledger, 1))
    assert ledger.delivered(P, 1) is Skip.ALREADY_DONE


def test_a_completion_after_revoke_is_stale(ledger: OffsetLedger) -> None:
    ticket = deliver(ledger, 0)
    ledger.revoked(P)
    assert not ledger.done(ticket)


def test_a_completion_from_before_a_revoke_is_stale_when_the_partition_came_back(
    ledger: OffsetLedger,
) -> None:
    old = deliver(ledger, 0)
    ledger.revoked(P)
    ledger.assigned(P, 0)
    deliver(ledger, 0)
    assert not ledger.done(old)
    assert due(ledger) == []


def test_revoke_gives_the_last_commit_and_loss_gives_none(ledger: OffsetLedger) -> None:
    ledger.assigned(Q, 0)
    ledger.done(deliver(ledger, 0))
    ledger.done(deliver(ledger, 0, Q))
    ledger.lost(Q)
    final = ledger.revoked(P)
    assert final is not None
    assert final.offset == 1
    assert ledger.due() == []


def test_partitions_that_were_never_owned_do_nothing(ledger: OffsetLedger) -> None:
    assert ledger.revoked(Q) is None
    ledger.lost(Q)
    ledger.acknowledged(Q, 5)
    ledger.refused(Q)
    assert ledger.delivered(Q, 0) is Skip.NOT_OWNED
    assert not ledger.done(Ticket(Q, 0, 1, 1))
    assert ledger.view(Q) is None
    assert ledger.owned() == [P]


def test_a_late_acknowledgement_of_an_earlier_epoch_is_not_believed(ledger: OffsetLedger) -> None:
    ledger.assigned(P, 10)
    ledger.acknowledged(P, 5)
    view = ledger.view(P)
    assert view is not None
    assert view.committed == 10


def test_the_window_fills_with_the_span_not_with_the_number_pending() -> None:
    ledger = OffsetLedger(window=10)
    ledger.assigned(P, 0)
    slow = deliver(ledger, 0)
    for offset in range(1, 10):
        ledger.done(deliver(ledger, offset))
    assert ledger.fullness(P) == 1.0
    view = ledger.view(P)
    assert view is not None
    assert (view.pending, view.done_ahead, view.span) == (1, 9, 10)
    ledger.done(slow)
    assert ledger.fullness(P) == 0.0


def test_memory_does_not_grow_with_what_has_been_passed(ledger: OffsetLedger) -> None:
    for offset in range(10_000):
        ledger.done(deliver(ledger, offset))
        if not offset % 100:
            ledger.due()
    ledger.due()
    inside = ledger._partitions[P]
    assert (len(inside.ahead), len(inside.done), len(inside.pending)) == (0, 0, 0)


class History(RuleBasedStateMachine):
    """Two members, one partition, a broker that keeps, loses or garbles what is committed."""

    @initialize(steps=st.lists(st.integers(1, 4), min_size=1, max_size=40))
    def fill_the_log(self, steps: list[int]) -> None:
        self.log: list[int] = []
        offset = -1
        for step in steps:
            offset += step
            self.log.append(offset)
        self.members = [OffsetLedger(), OffsetLedger()]
        self.owner: OffsetLedger | None = None
        self.committed: int | None = None
        self.metadata = ""
        self.on_the_way: list[tuple[OffsetLedger, Commit]] = []
        self.cursor = 0
        self.settled: set[int] = set()
        self.remembered: set[int] = set()
        self.tickets: list[tuple[OffsetLedger, Ticket]] = []
        self.latest: dict[int, Ticket] = {}
        self.delivered: set[int] = set()
        self.start = 0
        self.position = 0

    @precondition(lambda self: self.owner is None)
    @rule(which=st.integers(0, 1))
    def assign(self, which: int) -> None:
        self.owner = self.members[which]
        self.start = self.position = self.committed or 0
        found = self.owner.assigned(
            P, self.start, committed=self.committed is not None, metadata=self.metadata
        )
        known = set() if self.committed is None else decode(self.start, self.metadata)[0]
        assert found.restored == len(known)
        assert known <= self.settled, "I6"
        self.remembered = known
        self.cursor = self.start
        self.latest = {}
        self.delivered = set()

    @precondition(lambda self: self.owner is not None)
    @rule(count=st.integers(1, 6))
    def deliver_next(self, count: int) -> None:
        for offset in [o for o in self.log if o >= self.cursor][:count]:
            self.hand_over(offset)

    @precondition(lambda self: self.owner is not None)
    @rule(back=st.integers(0, 8))
    def seek_back(self, back: int) -> None:
        self.cursor = max(self.start, self.cursor - back)

    def hand_over(self, offset: int) -> None:
        assert self.owner is not None
        self.cursor = offset + 1
        self.delivered.add(offset)
        ticket = self.owner.delivered(P, offset)
        if isinstance(ticket, Skip):
            assert ticket is Skip.ALREADY_DONE
            assert offset in self.settled, "I6"
            return
        assert offset not in self.remembered, "I6"
        self.latest[offset] = ticket
        self.tickets.append((self.owner, ticket))

    @precondition(lambda self: self.tickets)
    @rule(which=st.integers(0, 1_000_000))
    def complete_any(self, which: int) -> None:
        member, ticket = self.tickets.pop(which % len(self.tickets))
        current = member is self.owner and self.latest.get(ticket.offset) == ticket
        accepted = member.done(ticket)
        assert accepted == current, "I4"
        assert not member.done(ticket), "I4"
        if accepted:
            self.settled.add(ticket.offset)

    @precondition(lambda self: self.owner is not None)
    @rule()
    def commit(self) -> None:
        assert self.owner is not None
        for commit in self.owner.due():
            self.send(self.owner, commit)

    def send(self, member: OffsetLedger, commit: Commit) -> None:
        assert len(commit.metadata.encode()) <= BROKER_LIMIT, "I7"
        assert commit.offset >= (self.committed or 0), "I2"
        handed_on = decode(commit.offset, commit.metadata)[0]
        assert {o for o in self.remembered if o >= commit.offset} <= handed_on, "I6"
        self.on_the_way.append((member, commit))

    @precondition(lambda self: self.on_the_way)
    @rule(arrives=st.booleans())
    def broker_answers(self, arrives: bool) -> None:
        member, commit = self.on_the_way.pop(0)
        if arrives:
            self.committed, self.metadata = commit.offset, commit.metadata
            member.acknowledged(P, commit.offset)
        else:
            member.refused(P)

    @precondition(lambda self: self.owner is not None)
    @rule(delivered=st.booleans())
    def revoke(self, delivered: bool) -> None:
        assert self.owner is not None
        while self.on_the_way:  # a coordinator takes one member's requests in order
            self.broker_answers(True)
        final = self.owner.revoked(P)
        if final is not None and delivered:
            self.send(self.owner, final)
            self.broker_answers(True)
        self.owner = None

    @precondition(lambda self: self.owner is not None)
    @rule()
    def lose(self) -> None:
        assert self.owner is not None
        self.owner.lost(P)
        self.on_the_way.clear()
        self.owner = None

    @precondition(lambda self: self.owner is None)
    @rule(text=st.sampled_from(["", "somebody else's", "bx1.", "bx1.AAAAAAAA", "bx9.zzzz"]))
    def metadata_is_garbled(self, text: str) -> None:
        self.metadata = text

    @rule(which=st.integers(0, 1))
    def revoke_what_is_not_owned(self, which: int) -> None:
        assert self.members[which].revoked(Q) is None
        self.members[which].lost(Q)
        if self.owner is not self.members[which]:
            assert self.members[which].revoked(P) is None, "I8"

    @invariant()
    def nothing_is_lost(self) -> None:
        for offset in self.log:
            if offset < (self.committed or 0):
                assert offset in self.settled, "I1"

    @invariant()
    def the_position_is_right(self) -> None:
        if self.owner is None:
            return
        view = self.owner.view(P)
        assert view is not None
        assert view.position >= self.position, "I2"
        self.position = view.position
        edge = max(self.delivered) + 1 if self.delivered else self.start
        assert view.delivered == edge
        assert view.position in {*self.delivered, self.start, edge}, "I3"
        open_ = [o for o in self.delivered if o not in self.settled]
        assert all(view.position <= offset for offset in open_), "I1"
        if not view.pending:
            assert view.position == edge, "I5"


TestHistory = History.TestCase
TestHistory.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
