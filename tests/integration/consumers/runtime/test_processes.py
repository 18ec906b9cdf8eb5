"""Workers as processes: killed, hung, told to stop with the brokers up and down."""

from __future__ import annotations

import signal
import time

import psutil
import pytest

from consumers.runtime.delivery import Delivery
from consumers.runtime.effects import Perform, Task
from consumers.runtime.exits import Exit
from tests.integration.consumers.runtime.members import (
    Member,
    committed,
    eventually,
    produce,
    running,
    settings_for,
    sleeping,
    unique_group,
)
from tests.integration.consumers.runtime.processes import Process, process
from tests.servers import Kafka, MakeTopic
from tests.unit.consumers.runtime.fakes import Gate

pytestmark = pytest.mark.integration


def test_sigterm_stops_a_worker_in_order(kafka: Kafka, make_topic: MakeTopic) -> None:
    topic, group = make_topic(), unique_group()
    produce(kafka.bootstrap, topic, 5)
    with process(settings_for(kafka.bootstrap, group, topic), "sleep:0") as worker:
        worker.wait_told("settled", 5)
        worker.popen.send_signal(signal.SIGTERM)
        assert worker.wait_end() == Exit.OK
    assert committed(kafka.bootstrap, group, topic) == {0: 5}


def test_sigterm_waits_for_a_call_in_progress(kafka: Kafka, make_topic: MakeTopic) -> None:
    topic, group = make_topic(), unique_group()
    produce(kafka.bootstrap, topic, 1)
    with process(settings_for(kafka.bootstrap, group, topic), "call:2") as worker:
        worker.wait_told("got")
        worker.popen.send_signal(signal.SIGTERM)
        assert worker.wait_end() == Exit.OK
        assert worker.told("settled") == ["settled 1"]
    assert committed(kafka.bootstrap, group, topic) == {0: 1}


def test_a_hung_control_loop_ends_the_process_with_its_stacks_and_a_peer_takes_over(
    kafka: Kafka, make_topic: MakeTopic
) -> None:
    topic, group = make_topic(), unique_group()
    settings = settings_for(kafka.bootstrap, group, topic, loop_stuck_after=3.0, assign_timeout=2.0)
    with process(settings, "hang_the_loop") as worker:
        worker.wait_told("owned")
        produce(kafka.bootstrap, topic, 1)
        worker.wait_told("got")
        assert worker.wait_end(15) == Exit.LOOP_STUCK
        text = "\n".join(worker.errors)
        assert "control loop has been stuck" in text
        assert "hang_here" in text
    peer = Member(settings, sleeping(0))
    with running(peer):
        eventually(lambda: peer.seen.counts["settled"] == 1, "the peer settled the event", 30)


def test_hung_calls_in_a_pool_leave_the_control_loop_alone(
    kafka: Kafka, make_topic: MakeTopic
) -> None:
    topic, group = make_topic(partitions=2), unique_group()
    produce(kafka.bootstrap, topic, 2, partition=0)
    gate = Gate()

    def work(delivery: Delivery) -> Task:
        if delivery.partition == 0:
            yield Perform("io", gate)

    member = Member(settings_for(kafka.bootstrap, group, topic), work, threads=2)
    gaps: list[float] = []
    with running(member):
        eventually(lambda: len(member.events) == 2, "both threads hang")
        end = time.monotonic() + 3
        while time.monotonic() < end:
            gaps.append(member.worker.loop_age)
            time.sleep(0.005)
        produce(kafka.bootstrap, topic, 5, partition=1)
        eventually(lambda: member.seen.counts["settled"] == 5, "the other partition goes on")
        pool = member.scheduler.pool_stats()["io"]
        assert pool.in_progress == 2
        assert pool.oldest_in_progress_seconds > 2
        gate.open()
    assert max(gaps) < 1


def resident(worker: Process) -> int:
    return int(psutil.Process(worker.popen.pid).memory_info().rss)


@pytest.mark.slow
def test_ten_thousand_events_done_behind_a_slow_one_are_not_done_again_after_sigkill(
    kafka: Kafka, make_topic: MakeTopic
) -> None:
    topic, group, count = make_topic(), unique_group(), 10_000
    settings = settings_for(kafka.bootstrap, group, topic, window=20_000)
    with process(settings, "first_is_slow") as worker:
        worker.wait_told("owned")
        for lot in range(10):  # equal ones: what the client fetches ahead takes memory, too
            produce(kafka.bootstrap, topic, count // 10)
            worker.wait_told("settled", (lot + 1) * count // 10 - 1, 90)
            if lot == 0:
                early = resident(worker)
        commits = len(worker.told("committed"))
        worker.wait_told("committed", commits + 1)  # with all of them in its metadata
        late = resident(worker)
        worker.popen.kill()
    assert committed(kafka.bootstrap, group, topic) == {0: 0}
    assert late < early * 1.25

    successor = Member(settings, sleeping(0))
    with running(successor):
        eventually(
            lambda: committed(kafka.bootstrap, group, topic) == {0: count}, "all committed", 90
        )
    assert [d.offset for d in successor.events] == [0]
