"""The control loop against a scripted client: rebalances, odd input, back-pressure, errors, end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException

from consumers.runtime.control import Worker
from consumers.runtime.delivery import Delivery
from consumers.runtime.effects import Perform, Sleep, Task
from consumers.runtime.exits import Exit
from consumers.runtime.offset_metadata import encode
from consumers.runtime.offsets import Partition
from consumers.runtime.pools import PoolSettings
from consumers.runtime.scheduler import Scheduler
from consumers.runtime.settings import RuntimeSettings
from tests.unit.consumers.runtime.fake_consumer import TOPIC, FakeConsumer, FakeRecord, Script
from tests.unit.consumers.runtime.fakes import Gate, Seen

SETTINGS = RuntimeSettings(
    bootstrap_servers="nowhere:1",
    group_id="g",
    topics=(TOPIC,),
    commit_interval=0.001,
    idle_wait=0.001,
    grace=4.0,
)
MAX_POLLS = 20_000


class Rig:
    """A worker, its scripted client, and what both did."""

    def __init__(
        self, settings: RuntimeSettings = SETTINGS, work: Callable[[Delivery], Task] | None = None
    ) -> None:
        self.consumer = FakeConsumer()
        self.seen = Seen()
        self.events: list[Delivery] = []
        self.gates: dict[int, Gate] = {}
        self.allowed = True
        self.on_task_error: Any = None
        self.settings = settings
        self._work = work if work is not None else self.done_at_once
        self.scheduler = Scheduler({"io": PoolSettings(4)})

    def done_at_once(self, delivery: Delivery) -> Task:
        yield Sleep(0)

    def wait_for_gate(self, delivery: Delivery) -> Task:
        """Ends when the gate of its offset opens; a call in progress until then."""
        yield Perform("io", self.gates.setdefault(delivery.offset, Gate()))

    def run(self, script: Script) -> Exit:
        self.consumer.script = script

        def make(config: dict[str, Any]) -> Consumer:
            self.consumer.config = config
            return cast("Consumer", self.consumer)

        self.worker = Worker(
            self.settings,
            self._handle,
            self.scheduler,
            intake_allowed=lambda: self.allowed,
            observer=self.seen,
            on_task_error=self.on_task_error,
            make_consumer=make,
        )
        self.consumer.on_script_end = self.worker.stop
        try:
            return self.worker.run()
        finally:
            for gate in self.gates.values():
                gate.open()

    def _handle(self, delivery: Delivery) -> Task:
        self.events.append(delivery)
        return self._work(delivery)

    def until(self, condition: Callable[[], object]) -> Iterator[None]:
        """For scripts: nothing to poll until ``condition`` holds."""
        for _ in range(MAX_POLLS):
            if condition():
                return
            yield None
        raise AssertionError("the condition never came true")

    def settled(self, count: int) -> Iterator[None]:
        return self.until(lambda: self.seen.counts["settled"] >= count)


@pytest.fixture
def rig() -> Rig:
    return Rig()


def records(*offsets: int, partition: int = 0) -> list[FakeRecord]:
    return [FakeRecord(offset, partition) for offset in offsets]


def error(code: int) -> KafkaError:
    return KafkaError(code)


def test_records_are_processed_committed_and_the_stop_is_clean(rig: Rig) -> None:
    def script() -> Script:
        rig.consumer.rebalance("assign", [0])
        yield from records(0, 1, 2)
        yield from rig.settled(3)

    assert rig.run(script()) is Exit.OK
    assert rig.consumer.store[0] == (3, "")
    assert rig.consumer.closed


def test_a_record_reaches_the_handler_untouched(rig: Rig) -> None:
    def script() -> Script:
        rig.consumer.rebalance("assign", [0])
        yield FakeRecord(0, 0, value_=None, key_=None)
        yield FakeRecord(1, 0, value_=b"", key_=b"", headers_=[("a", b"1"), ("a", None)])
        yield from rig.settled(2)

    rig.run(script())
    tombstone, empty = rig.events
    assert (tombstone.value, tombstone.key, tombstone.headers) == (None, None, [])
    assert (empty.value, empty.key, empty.headers) == (b"", b"", [("a", b"1"), ("a", None)])
    assert empty.timestamp_ms == 1_700_000_000_001
    assert empty.epoch == 1


# -- taking over ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("start_from", "start"), [("earliest", 10), ("latest", 50)])
def test_a_group_without_offsets_starts_as_set_and_commits_that_at_once(
    start_from: Any, start: int
) -> None:
    rig = Rig(replace(SETTINGS, start_from=start_from))
    rig.consumer.marks[0] = (10, 50)

    def script() -> Script:
        rig.consumer.rebalance("assign", [0])
        yield from rig.until(lambda: rig.consumer.store)

    assert rig.run(script()) is Exit.OK
    assert rig.consumer.called("incremental_assign") == [[(0, start)]]
    assert rig.consumer.store[0] == (start, "")


def test_what_metadata_says_is_done_is_skipped(rig: Rig) -> None:
    rig.consumer.store[0] = (0, encode(0, {1, 3}) or "")

    def script() -> Script:
        rig.consumer.rebalance("assign", [0])
        yield from records(0, 1, 2, 3, 4)
        yield from rig.settled(3)

    assert rig.run(script()) is Exit.OK
    assert [d.offset for d in rig.events] == [0, 2, 4]
    assert rig.consumer.store[0] == (5, "")


def test_an_empty_assignment_is_fine(rig: Rig) -> None:
    def script() -> Script:
        rig.consumer.rebalance("assign", [])
        yield None

    assert rig.run(script()) is Exit.OK


@pytest.mark.parametrize("code", [KafkaError._TIMED_OUT, KafkaError.GROUP_AUTHORIZATION_FAILED])
def test_committed_offsets_that_cannot_be_read_end_the_process_instead_of_starting_anywhere(
    code: int,
) -> None:
    rig = Rig(replace(SETTINGS, assign_timeout=0.3))
    rig.consumer.committed_error = error(code)

    def script() -> Script:
        rig.consumer.rebalance("assign", [0])
        yield from records(0, 1)

    assert rig.run(script()) is Exit.ASSIGN_FAILED
    assert rig.events == []


def test_committed_offsets_are_asked_for_again_while_the_coordinator_comes_back(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.consumer.store[0] = (7, "")
    answer = rig.consumer.committed
    refusals = [KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError._TIMED_OUT]

    def committed(partitions: Any, timeout: float) -> Any:
        if refusals:
            raise KafkaException(error(refusals.pop()))
        return answer(partitions, timeout)

    def script() -> Script:
        monkeypatch.setattr(rig.consumer, "committed", committed)
        rig.consumer.rebalance("assign", [0])
        yield from records(7)
        yield from rig.settled(1)

    assert rig.run(script()) is Exit.OK
    assert rig.consumer.called("incremental_assign") == [[(0, 7)]]


def test_an_exception_in_a_callback_never_reaches_the_client_and_ends_the_process(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(partitions: Any) -> None:
        raise ZeroDivisionError

    def script() -> Script:
        monkeypatch.setattr(rig.consumer, "incremental_assign", broken)
        rig.consumer.rebalance("assign", [0])
        yield from records(0, 1)

    assert rig.run(script()) is Exit.LOOP_FAILED
    assert rig.events == []
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_new_partitions_are_paused_or_resumed_explicitly_as_decided(rig: Rig) -> None:
    rig.allowed = False

    def script() -> Script:
        rig.consumer.rebalance("assign", [0, 1])
        assert rig.consumer.is_paused == {0, 1}
        rig.allowed = True
        yield from rig.until(lambda: not rig.consumer.is_paused)
        rig.consumer.is_paused.add(2)  # the client remembers it from an earlier ownership
        rig.consumer.rebalance("assign", [2])
        assert rig.consumer.is_paused == set()

    assert rig.run(script()) is Exit.OK


def test_an_eager_assignor_gets_whole_assignments() -> None:
    rig = Rig(replace(SETTINGS, assignor="range"))
    rig.consumer.store[0] = (5, "")

    def script() -> Script:
        rig.consumer.rebalance("assign", [0])
        yield None
        rig.consumer.rebalance("revoke", [0])

    assert rig.run(script()) is Exit.OK
    assert rig.consumer.called("assign") == [[(0, 5)]]
    assert rig.consumer.called("unassign") == [None]


# -- giving up ------------------------------------------------------------------------------------


def test_a_revoke_waits_for_the_call_in_progress_and_commits_its_event() -> None:
    rig = Rig()
    rig._work = rig.wait_for_gate

    def script() -> Script:
        rig.consumer.rebalance("assign", [0])
        yield from records(0)
        yield from rig.until(lambda: rig.gates and rig.gates[0].started)
        rig.gates[0].open()
        rig.consumer.rebalance("revoke", [0])
        assert rig.consumer.store[0][0] == 1
        assert rig.consumer.calls[-2][0] == "commit"
        assert rig.consumer.calls[-1] == ("incremental_unassign", [0])

    assert rig.run(script()) is Exit.OK
    assert rig.seen.revocations == [(Partition(TOPIC, 0), 0)]


def test_a_completion_after_the_revoke_deadline_is_stale_and_commits_nothing() -> None:
    rig = Rig(replace(SETTINGS, grace=0.2))  # a revoke deadline of 0.1 s
    rig._work = rig.wait_for_gate

    def script() -> Script:
        rig.consumer.rebalance("assign", [0])
        yield from records(0)
        yield from rig.until(lambda: rig.gates and rig.gates[0].started)
        rig.consumer.rebalance("revoke", [0])
        commits = len(rig.consumer.called("commit"))
        rig.gates[0].open()
        yield from rig.until(lambda: rig.worker._dispatcher.in_flight == 0)
        yield from [None] * 50
        assert len(rig.consumer.called("commit")) == commits

    assert rig.run(script()) is Exit.OK
    assert rig.seen.revocations == [(Partition(TOPIC, 0), 1)]
    assert rig.consumer.store[0] == (0, "")
    assert rig.seen.counts["settled"] == 0
    assert rig.seen.counts["stale"] == 1


def test_other_partitions_go_on_when_one_is_revoked() -> None:
    rig = Rig()
    rig._work = rig.wait_for_gate

    def script() -> Script:
        rig.consumer.rebalance("assign", [0, 1])
        yield from records(7, partition=1)
        yield from rig.until(lambda: rig.gates and rig.gates[7].started)
        rig.consumer.rebalance("revoke", [0])
        rig.gates[7].open()
        yield from rig.settled(1)

    assert rig.run(script()) is Exit.OK
    assert rig.consumer.store[1] == (8, "")


def test_lost_partitions_commit_nothing_and_their_tasks_end() -> None:
    rig = Rig()
    closed: list[int] = []

    def work(delivery: Delivery) -> Task:
        try:
            yield Sleep(1000)
        finally:
            closed.append(delivery.offset)

    rig._work = work

    def script() -> Script:
        rig.consumer.store[0] = (5, "")
        rig.consumer.rebalance("assign", [0])
        yield from records(5)
        yield None
        rig.consumer.rebalance("lost", [0])
        assert closed == [5]
        yield None

    assert rig.run(script()) is Exit.OK
    assert rig.consumer.called("commit") == []


def test_revoke_of_partitions_never_assigned_is_counted_and_harmless(rig: Rig) -> None:
    def script() -> Script:
        rig.consumer.rebalance("assign", [0])
        rig.consumer.rebalance("revoke", [3])
        rig.consumer.rebalance("lost", [4])
        yield from records(0)
        yield from rig.settled(1)

    assert rig.run(script()) is Exit.OK
    assert rig.seen.counts["unknown_revoked"] == 2


def test_partitions_the_client_lost_without_a_word_are_given_up(rig: Rig) -> None:
    rig._work = lambda delivery: (yield Sleep(1000))

    def script() -> Script:
        rig.consumer.store[0] = (0, "")
        rig.consumer.rebalance("assign", [0])
        yield from records(0)
        rig.consumer.owned.clear()
        yield from rig.until(lambda: rig.seen.counts["lost"])

    rig.run(script())
    assert rig.consumer.called("commit") == []


def test_a_commit_for_a_partition_that_the_client_does_not_own_is_not_sent(rig: Rig) -> None:
    def script() -> Script:
        rig.consumer.rebalance("assign", [0])
        rig.consumer.store[0] = (99, "")  # by its new owner
        rig.consumer.owned.clear()
        yield from records(0)
        yield from rig.until(lambda: rig.seen.commit_failures)

    rig.run(script())
    assert rig.consumer.called("commit") == []
    assert rig.consumer.store[0] == (99, "")
    assert list(rig.seen.commit_failures) == ["fenced:_INVALID_ARG"]


def test_records_of_partitions_not_owned_are_skipped(rig: Rig) -> None:
    def script() -> Script:
        rig.consumer.rebalance("assign", [0])
        yield from records(0, partition=9)

    assert rig.run(script()) is Exit.OK
    assert rig.events == []
    assert rig.seen.counts["skipped_not_owned"] == 1


# -- re-delivery ----------------------------------------------------------------------------------


def test_an_offset_redelivered_while_its_task_runs_passes_when_the_new_task_has_ended() -> None:
    rig = Rig()
    started: list[Gate] = []
    went_on: list[Gate] = []

    def work(delivery: Delivery) -> Task:
        gate = Gate()
        started.append(gate)
        yield Perform("io", gate)
        went_on.append(gate)

    rig._work = work

    def script() -> Script:
        rig.consumer.rebalance("assign", [0])
        yield from records(0)
        yield from rig.until(lambda: started and started[0].started)
        yield from records(0)
        yield from rig.until(lambda: len(started) == 2 and started[1].started)
        started[0].open()
        yield from [None] * 50
        assert rig.consumer.store.get(0, (0, ""))[0] == 0
        started[1].open()
        yield from rig.settled(1)

    assert rig.run(script()) is Exit.OK
    assert rig.consumer.store[0] == (1, "")
    assert rig.seen.counts["redelivered_in_flight"] == 1
    assert went_on == [started[1]]  # the old task did nothing more once its call had returned
    assert (rig.seen.counts["settled"], rig.seen.counts["stale"]) == (1, 1)


# -- back-pressure --------------------------------------------------------------------------------


def test_intake_pauses_at_the_high_mark_and_resumes_at_the_low_one() -> None:
    rig = Rig(replace(SETTINGS, in_flight_high=3, in_flight_low=1))
    rig._work = rig.wait_for_gate

    def script() -> Script:
        rig.consumer.rebalance("assign", [0, 1])
        yield from records(0, 1, 2)
        yield from rig.until(lambda: rig.consumer.is_paused == {0, 1})
        rig.gates[0].open()
        yield from rig.settled(1)
        yield from [None] * 20
        assert rig.consumer.is_paused == {0, 1}
        rig.gates[1].open()
        yield from rig.until(lambda: not rig.consumer.is_paused)
        rig.gates[2].open()

    assert rig.run(script()) is Exit.OK
    assert [d.offset for d in rig.events] == [0, 1, 2]


def test_a_burst_stops_at_the_high_mark() -> None:
    rig = Rig(replace(SETTINGS, in_flight_high=3, in_flight_low=1))
    seen: list[int] = []

    def work(delivery: Delivery) -> Task:
        seen.append(rig.worker._dispatcher.in_flight)
        yield Sleep(0.005)

    rig._work = work

    def script() -> Script:
        rig.consumer.rebalance("assign", [0])
        yield from records(*range(20))
        yield from rig.settled(20)

    assert rig.run(script()) is Exit.OK
    assert max(seen) == 3


def test_a_full_window_pauses_its_partition_alone() -> None:
    rig = Rig(replace(SETTINGS, window=5, window_low=0.5))

    def work(delivery: Delivery) -> Task:
        if delivery.offset == 0 and delivery.partition == 0:
            yield Perform("io", rig.gates.setdefault(0, Gate()))

    rig._work = work

    def script() -> Script:
        rig.consumer.rebalance("assign", [0, 1])
        yield from records(0, 1, 2, 3, 4)
        yield from rig.until(lambda: rig.consumer.is_paused == {0})
        yield from records(0, 1, partition=1)
        yield from rig.settled(6)
        assert rig.consumer.is_paused == {0}
        rig.allowed = False
        yield from rig.until(lambda: rig.consumer.is_paused == {0, 1})
        assert set(rig.seen.paused_now.values()) == {"application"}
        assert rig.consumer.called("pause") == [[0], [1]]  # each once: it is not free
        rig.allowed = True
        yield from rig.until(lambda: rig.consumer.is_paused == {0})
        assert rig.seen.paused_now == {Partition(TOPIC, 0): "window"}
        rig.gates[0].open()
        yield from rig.until(lambda: not rig.consumer.is_paused)

    assert rig.run(script()) is Exit.OK


def test_pausing_follows_the_application(rig: Rig) -> None:
    def script() -> Script:
        rig.consumer.rebalance("assign", [0, 1])
        rig.allowed = False
        yield from rig.until(lambda: rig.consumer.is_paused == {0, 1})
        assert set(rig.seen.paused_now.values()) == {"application"}
        rig.allowed = True
        yield from rig.until(lambda: not rig.consumer.is_paused)

    assert rig.run(script()) is Exit.OK
    assert len(rig.consumer.called("pause")) == 2  # when told to, and at the stop


# -- commits --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.FENCED_MEMBER_EPOCH,
        KafkaError._WAIT_COORD,
    ],
)
def test_refused_commits_are_counted_and_sent_again(rig: Rig, code: int) -> None:
    rig.consumer.commit_error = error(code)

    def script() -> Script:
        rig.consumer.rebalance("assign", [0])
        yield from records(0)
        yield from rig.until(lambda: sum(rig.seen.commit_failures.values()) >= 3)
        rig.consumer.commit_error = None
        yield from rig.until(lambda: rig.consumer.store.get(0) == (1, ""))

    assert rig.run(script()) is Exit.OK
    assert list(rig.seen.commit_failures) == [error(code).name()]


def test_a_broker_with_a_smaller_metadata_limit_still_gets_every_offset() -> None:
    rig = Rig()
    rig._work = rig.wait_for_gate
    rig.consumer.metadata_limit = 5

    def script() -> Script:
        rig.consumer.rebalance("assign", [0])
        yield from records(0, 1, 2)
        yield from rig.until(lambda: len(rig.gates) == 3)
        rig.gates[2].open()
        yield from rig.until(lambda: rig.seen.commit_failures)
        rig.gates[0].open()
        yield from rig.until(lambda: rig.consumer.store.get(0) == (1, ""))
        rig.gates[1].open()

    assert rig.run(script()) is Exit.OK
    assert rig.consumer.store[0] == (3, "")


def test_no_second_commit_is_queued_behind_one_without_an_answer(rig: Rig) -> None:
    rig.consumer.answers_commits = False

    def script() -> Script:
        rig.consumer.rebalance("assign", [0])
        for offset in range(20):
            yield from records(offset)
            yield from rig.settled(offset + 1)

    assert rig.run(script()) is Exit.UNCOMMITTED
    assert len(rig.consumer.called("commit")) <= 2  # one on its way, and the last one


# -- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE])
def test_an_offset_the_broker_no_longer_holds_stops_the_worker_and_says_what_to_do(
    rig: Rig, code: int
) -> None:
    def script() -> Script:
        rig.consumer.rebalance("assign", [0])
        yield FakeRecord(0, error_=error(code))
        yield from records(100)

    assert rig.run(script()) is Exit.OFFSET_LOST
    assert rig.events == []
    assert rig.worker.failure is not None
    assert "events[0]" in rig.worker.failure.message
    assert "--reset-offsets" in rig.worker.failure.message


def test_an_unknown_topic_at_the_start_is_a_wrong_setting(rig: Rig) -> None:
    def script() -> Script:
        yield FakeRecord(0, error_=error(KafkaError.UNKNOWN_TOPIC_OR_PART))

    assert rig.run(script()) is Exit.CONFIG


def test_an_unknown_topic_later_is_waited_out(rig: Rig) -> None:
    def script() -> Script:
        rig.consumer.rebalance("assign", [0])
        yield FakeRecord(0, error_=error(KafkaError.UNKNOWN_TOPIC_OR_PART))
        yield from records(0)
        yield from rig.settled(1)

    assert rig.run(script()) is Exit.OK
    assert rig.seen.client_errors["UNKNOWN_TOPIC_OR_PART"] == 1


def test_brokers_that_are_down_are_waited_out(rig: Rig) -> None:
    def script() -> Script:
        rig.consumer.config["error_cb"](error(KafkaError._ALL_BROKERS_DOWN))
        rig.consumer.config["error_cb"](error(KafkaError._TRANSPORT))
        rig.consumer.rebalance("assign", [0])
        yield from records(0)
        yield from rig.settled(1)

    assert rig.run(script()) is Exit.OK


def test_a_fatal_client_error_ends_the_worker(rig: Rig) -> None:
    def script() -> Script:
        fatal = KafkaError(KafkaError._FATAL, "fenced", True)
        rig.consumer.config["error_cb"](fatal)
        yield None

    assert rig.run(script()) is Exit.FENCED


def fails(delivery: Delivery) -> Task:
    yield Sleep(0)
    raise LookupError("a bug")


def test_a_task_that_raises_ends_the_worker_and_its_offset_is_not_committed() -> None:
    rig = Rig(work=fails)

    def script() -> Script:
        rig.consumer.rebalance("assign", [0])
        yield from records(0)
        yield from rig.until(lambda: False)

    assert rig.run(script()) is Exit.TASK_FAILED
    assert rig.consumer.store[0] == (0, "")
    assert rig.worker.failure is not None
    assert "LookupError" in rig.worker.failure.message
    assert "a bug" not in rig.worker.failure.message  # texts may hold what came in the record


def test_a_handler_that_raises_is_a_task_that_raises() -> None:
    def broken(delivery: Delivery) -> Task:
        raise LookupError

    rig = Rig(work=broken)

    def script() -> Script:
        rig.consumer.rebalance("assign", [0])
        yield from records(0)
        yield from rig.until(lambda: False)

    assert rig.run(script()) is Exit.TASK_FAILED


def test_the_application_may_settle_a_failed_event_in_another_way() -> None:
    rig = Rig(work=fails)
    rig.on_task_error = lambda delivery, error: rig.done_at_once(delivery)

    def script() -> Script:
        rig.consumer.rebalance("assign", [0])
        yield from records(0)
        yield from rig.settled(1)

    assert rig.run(script()) is Exit.OK
    assert rig.consumer.store[0] == (1, "")


def test_a_replacement_that_fails_too_ends_the_worker() -> None:
    rig = Rig(work=fails)
    rig.on_task_error = lambda delivery, error: fails(delivery)

    def script() -> Script:
        rig.consumer.rebalance("assign", [0])
        yield from records(0)
        yield from rig.until(lambda: False)

    assert rig.run(script()) is Exit.TASK_FAILED
    assert len(rig.seen.errors) == 2


def test_a_task_that_fails_after_its_partition_has_gone_harms_nobody() -> None:
    rig = Rig()

    def work(delivery: Delivery) -> Task:
        try:
            yield Sleep(1000)
        finally:
            raise PermissionError

    rig._work = work

    def script() -> Script:
        rig.consumer.rebalance("assign", [0])
        yield from records(0)
        yield None
        rig.consumer.rebalance("lost", [0])

    assert rig.run(script()) is Exit.OK
    assert [type(e) for e in rig.seen.errors] == [PermissionError]


# -- stuck partitions -----------------------------------------------------------------------------


def test_a_partition_with_lag_that_does_not_move_is_sought_assigned_anew_then_the_worker_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("consumers.runtime.control._UPKEEP_INTERVAL", 0.001)
    rig = Rig(replace(SETTINGS, partition_stuck_after=0.02))
    rig.consumer.marks[0] = (0, 100)
    rig.consumer.store[0] = (40, "")

    def script() -> Script:
        rig.consumer.rebalance("assign", [0])
        yield from records(40)
        yield from rig.until(lambda: False)

    assert rig.run(script()) is Exit.PARTITION_STUCK
    assert [step for _, step in rig.seen.steps] == ["seek", "reassign", "exit"]
    assert rig.consumer.called("seek") == [(0, 41)]
    assert rig.consumer.called("incremental_assign") == [[(0, 40)], [(0, 41)]]


def test_a_partition_that_is_paused_or_at_its_end_is_not_stuck(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("consumers.runtime.control._UPKEEP_INTERVAL", 0.001)
    rig = Rig(replace(SETTINGS, partition_stuck_after=0.01))
    rig.consumer.marks = {0: (0, 1), 1: (0, 100)}

    def script() -> Script:
        rig.consumer.rebalance("assign", [0])
        yield from records(0)
        yield from [None] * 100
        rig.allowed = False
        rig.consumer.rebalance("assign", [1])
        yield from [None] * 100

    assert rig.run(script()) is Exit.OK
    assert rig.seen.steps == []


def test_a_broker_that_does_not_answer_is_not_asked_for_every_idle_partition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("consumers.runtime.control._UPKEEP_INTERVAL", 0.001)
    rig = Rig(replace(SETTINGS, partition_stuck_after=0.005))
    asked: list[float] = []

    def silent(partition: Any, timeout: float = -1, cached: bool = False) -> tuple[int, int]:
        if not cached:
            asked.append(timeout)
        return -1001, -1001

    def script() -> Script:
        rig.consumer.store = {0: (0, ""), 1: (0, ""), 2: (0, "")}
        rig.consumer.rebalance("assign", [0, 1, 2])
        monkeypatch.setattr(rig.consumer, "get_watermark_offsets", silent)
        yield from rig.until(lambda: asked)
        yield from [None] * 100

    assert rig.run(script()) is Exit.OK
    assert asked == [0.5]
    assert rig.seen.steps == []


def test_transaction_markers_at_the_end_are_not_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("consumers.runtime.control._UPKEEP_INTERVAL", 0.001)
    rig = Rig(replace(SETTINGS, partition_stuck_after=0.01))
    rig.consumer.marks[0] = (0, 2)

    def script() -> Script:
        rig.consumer.rebalance("assign", [0])
        yield from records(0)
        yield FakeRecord(2, error_=error(KafkaError._PARTITION_EOF))  # offset 1 is a marker
        yield from [None] * 100

    assert rig.run(script()) is Exit.OK
    assert rig.seen.steps == []


# -- the end --------------------------------------------------------------------------------------


def test_a_stop_with_a_call_that_does_not_return_says_so_within_the_grace() -> None:
    rig = Rig(replace(SETTINGS, grace=0.5))
    rig._work = rig.wait_for_gate

    def script() -> Script:
        rig.consumer.rebalance("assign", [0])
        yield from records(0)
        yield from rig.until(lambda: rig.gates and rig.gates[0].started)

    assert rig.run(script()) is Exit.UNCOMMITTED
    assert rig.seen.leftovers == {Partition(TOPIC, 0): (0, 1)}


def test_partitions_lost_while_the_last_commit_is_awaited_are_told_as_uncommitted(
    rig: Rig,
) -> None:
    rig.consumer.answers_commits = False

    def script() -> Script:
        rig.consumer.rebalance("assign", [0])
        yield from records(0)
        yield from rig.settled(1)
        rig.worker.stop()
        yield None
        rig.consumer.rebalance("lost", [0])

    assert rig.run(script()) is Exit.UNCOMMITTED
    assert rig.seen.leftovers == {Partition(TOPIC, 0): (None, 0)}


def test_a_stop_leaves_waiting_events_to_the_next_owner_and_is_clean() -> None:
    rig = Rig(work=lambda delivery: (yield Sleep(1000)))

    def script() -> Script:
        rig.consumer.rebalance("assign", [0])
        yield from records(0, 1)
        yield from rig.until(lambda: len(rig.events) == 2)

    assert rig.run(script()) is Exit.OK
    assert rig.consumer.store[0] == (0, "")
    assert rig.seen.leftovers == {Partition(TOPIC, 0): (0, 2)}


def test_the_status_tells_what_is_going_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("consumers.runtime.control._UPKEEP_INTERVAL", 0.001)
    rig = Rig()
    rig._work = rig.wait_for_gate
    rig.consumer.marks[0] = (0, 10)

    def script() -> Script:
        rig.consumer.rebalance("assign", [0])
        yield from records(0, 1)
        yield from rig.until(lambda: len(rig.gates) == 2 and rig.gates[1].started)
        rig.gates[1].open()
        yield from rig.settled(1)
        yield from rig.until(lambda: rig.worker.snapshot().in_flight == 1)
        status = rig.worker.snapshot()
        assert status.state == "running"
        [partition] = status.partitions
        assert (partition.position, partition.lag, partition.in_flight) == (2, 8, 1)
        assert (partition.done_ahead, partition.oldest_in_flight_offset) == (1, 0)
        assert partition.oldest_in_flight_timestamp_ms == 1_700_000_000_000
        rig.gates[0].open()
        yield from rig.settled(2)

    assert rig.run(script()) is Exit.OK
    assert rig.worker.snapshot().state == "stopped"


def test_the_loop_says_what_it_spends_its_time_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("consumers.runtime.control._UPKEEP_INTERVAL", 0.001)
    rig = Rig()

    def script() -> Script:
        rig.consumer.rebalance("assign", [0])
        yield from records(0)
        yield from rig.settled(1)
        yield from rig.until(lambda: len(rig.seen.seconds) == 6)

    assert rig.run(script()) is Exit.OK
    assert set(rig.seen.seconds) == {"poll", "tasks", "wait", "commit", "rebalance", "upkeep"}
