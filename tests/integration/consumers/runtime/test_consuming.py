"""A worker on Apache Kafka: every record once, every offset committed, an end that tells."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer, TopicPartition

from consumers.runtime.delivery import Delivery
from consumers.runtime.effects import Message, Perform, Publish, PublishRefused, Sleep, Task
from consumers.runtime.exits import Exit
from consumers.runtime.offset_metadata import MetadataVerdict
from tests.integration.consumers.runtime.members import (
    PROTOCOLS,
    Member,
    commit_as_outsider,
    committed,
    ends,
    eventually,
    produce,
    running,
    settings_for,
    sleeping,
    unique_group,
)
from tests.servers import Kafka, MakeTopic
from tests.unit.consumers.runtime.fakes import Gate

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_record_is_processed_and_committed_and_the_stop_is_clean(
    kafka: Kafka, make_topic: MakeTopic, protocol: str
) -> None:
    topic, group = make_topic(partitions=4), unique_group()
    settings = settings_for(kafka.bootstrap, group, topic, group_protocol=protocol)
    produce(kafka.bootstrap, topic, 300)
    member = Member(settings, sleeping(0.05))
    with running(member):
        eventually(lambda: member.seen.counts["settled"] == 300, "300 events settled")
        assert member.stop() is Exit.OK
    assert committed(kafka.bootstrap, group, topic) == ends(kafka.bootstrap, topic, 4)
    assert len({(d.partition, d.offset) for d in member.events}) == len(member.events) == 300

    successor = Member(settings, sleeping(0))
    with running(successor):
        produce(kafka.bootstrap, topic, 1)
        eventually(lambda: successor.seen.counts["settled"] == 1, "the one new event settled")
        assert successor.stop() is Exit.OK
    assert len(successor.events) == 1


def test_odd_records_arrive_as_they_are(kafka: Kafka, make_topic: MakeTopic) -> None:
    topic, group = make_topic(), unique_group()
    big = bytes(range(256)) * 4000  # 1.0 MB
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "message.max.bytes": 2_000_000})
    producer.produce(topic, None, key=b"tombstone")
    producer.produce(topic, b"", key=b"")
    producer.produce(topic, big, headers=[("h", b"\xff"), ("h", None), ("empty", b"")])
    producer.produce(topic, b"\x00not json", key=b"poison")
    assert producer.flush(30) == 0
    member = Member(settings_for(kafka.bootstrap, group, topic), sleeping(0))
    with running(member):
        eventually(lambda: member.seen.counts["settled"] == 4, "four events settled")
    tombstone, empty, large, poison = member.events
    assert (tombstone.key, tombstone.value) == (b"tombstone", None)
    assert (empty.key, empty.value, empty.headers) == (b"", b"", [])
    assert large.value == big
    assert large.headers == [("h", b"\xff"), ("h", None), ("empty", b"")]
    assert poison.value == b"\x00not json"
    assert committed(kafka.bootstrap, group, topic) == {0: 4}


def test_a_wrong_topic_stops_the_worker_and_names_it(kafka: Kafka) -> None:
    member = Member(settings_for(kafka.bootstrap, unique_group(), "no-such-topic"), sleeping(0))
    with running(member):
        assert member.wait_end() is Exit.CONFIG
    assert member.worker.failure is not None
    assert "no-such-topic" in member.worker.failure.message


def test_a_property_the_client_does_not_know_stops_the_worker_and_names_it() -> None:
    settings = settings_for("127.0.0.1:1", "g", "t", consumer={"no.such.property": 1})
    member = Member(settings, sleeping(0))
    with running(member):
        assert member.wait_end() is Exit.CONFIG
    assert member.worker.failure is not None
    assert "no.such.property" in member.worker.failure.message


# -- offsets ---------------------------------------------------------------------------------------


def test_gaps_of_aborted_transactions_neither_stop_nor_skip_anything(
    kafka: Kafka, make_topic: MakeTopic
) -> None:
    topic, group = make_topic(), unique_group()
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": unique_group()})
    producer.init_transactions(60)
    for number in range(10):
        producer.begin_transaction()
        producer.produce(topic, f"{number}".encode())
        if number % 3:
            producer.commit_transaction(60)
        else:
            producer.abort_transaction(60)
    member = Member(
        settings_for(kafka.bootstrap, group, topic, partition_stuck_after=1.0), sleeping(0)
    )
    with running(member):
        eventually(lambda: member.seen.counts["settled"] == 6, "six committed records settled")
        last = member.events[-1].offset
        eventually(lambda: (committed(kafka.bootstrap, group, topic)) == {0: last + 1}, "committed")
        status = member.worker.snapshot
        eventually(lambda: [p.lag for p in status().partitions] == [0], "markers are not lag")
        # The last record is followed by markers only: the watchdog must not take that for a hang.
        looks = member.worker.snapshot().taken_at + 4
        eventually(lambda: status().taken_at > looks, "the watchdog has looked")
        assert member.seen.steps == []
        assert member.stop() is Exit.OK
    assert [d.value for d in member.events] == [b"1", b"2", b"4", b"5", b"7", b"8"]
    assert max(o for _, o in member.seen.commits) == last + 1


def delete_records(kafka: Kafka, topic: str, before: int) -> None:
    target = TopicPartition(topic, 0, before)
    admin = kafka.admin()
    admin.delete_records([target])[target].result(30)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_committed_offset_whose_records_were_deleted_stops_the_worker_without_a_jump(
    kafka: Kafka, make_topic: MakeTopic, protocol: str
) -> None:
    topic, group = make_topic(), unique_group()
    produce(kafka.bootstrap, topic, 20)
    commit_as_outsider(kafka.bootstrap, group, [TopicPartition(topic, 0, 5)])
    delete_records(kafka, topic, 10)
    settings = settings_for(kafka.bootstrap, group, topic, group_protocol=protocol)
    member = Member(settings, sleeping(0))
    with running(member):
        assert member.wait_end() is Exit.OFFSET_LOST
    assert member.events == []
    assert member.worker.failure is not None
    assert f"{topic}[0]" in member.worker.failure.message
    assert committed(kafka.bootstrap, group, topic) == {0: 5}


def test_a_committed_offset_beyond_the_end_of_a_topic_made_anew_stops_the_worker(
    kafka: Kafka, make_topic: MakeTopic
) -> None:
    topic, group = make_topic(), unique_group()
    produce(kafka.bootstrap, topic, 3)
    commit_as_outsider(kafka.bootstrap, group, [TopicPartition(topic, 0, 500)])
    member = Member(settings_for(kafka.bootstrap, group, topic), sleeping(0))
    with running(member):
        assert member.wait_end() is Exit.OFFSET_LOST
    assert committed(kafka.bootstrap, group, topic) == {0: 500}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_new_group_that_starts_at_the_latest_record_misses_nothing_after_a_restart(
    kafka: Kafka, make_topic: MakeTopic, protocol: str
) -> None:
    topic, group = make_topic(), unique_group()
    produce(kafka.bootstrap, topic, 5)
    settings = settings_for(
        kafka.bootstrap, group, topic, group_protocol=protocol, start_from="latest"
    )
    first = Member(settings, sleeping(0))
    with running(first):
        eventually(lambda: committed(kafka.bootstrap, group, topic) == {0: 5}, "start committed")
        first.stop()
    produce(kafka.bootstrap, topic, 2)  # while nobody is there
    second = Member(settings, sleeping(0))
    with running(second):
        eventually(lambda: second.seen.counts["settled"] == 2, "both records settled")
    assert first.events == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_done_offsets_behind_a_slow_event_are_not_done_again_by_the_next_owner(
    kafka: Kafka, make_topic: MakeTopic, protocol: str
) -> None:
    topic, group = make_topic(), unique_group()
    produce(kafka.bootstrap, topic, 3000)

    def slow_first(delivery: Delivery) -> Task:
        yield Sleep(1000 if delivery.offset == 0 else 0)

    settings = settings_for(kafka.bootstrap, group, topic, group_protocol=protocol)
    first = Member(settings, slow_first)
    with running(first):
        eventually(lambda: first.seen.counts["settled"] == 2999, "all but the first settled")
        assert first.stop() is Exit.OK
    assert committed(kafka.bootstrap, group, topic) == {0: 0}

    second = Member(settings, sleeping(0))
    with running(second):
        eventually(lambda: committed(kafka.bootstrap, group, topic) == {0: 3000}, "all committed")
    assert [d.offset for d in second.events] == [0]
    assert second.seen.restored == [(second.events[0].source, 2999, MetadataVerdict.RESTORED)]


@pytest.mark.parametrize("metadata", ["somebody else's note", "bx1.corrupt", "x" * 4095])
def test_metadata_of_others_is_ignored_and_everything_processed(
    kafka: Kafka, make_topic: MakeTopic, metadata: str
) -> None:
    topic, group = make_topic(), unique_group()
    produce(kafka.bootstrap, topic, 5)
    commit_as_outsider(kafka.bootstrap, group, [TopicPartition(topic, 0, 1, metadata=metadata)])
    member = Member(settings_for(kafka.bootstrap, group, topic), sleeping(0))
    with running(member):
        eventually(lambda: member.seen.counts["settled"] == 4, "four events settled")
    [(_, restored, verdict)] = member.seen.restored
    assert restored == 0
    assert verdict in (MetadataVerdict.FOREIGN, MetadataVerdict.CORRUPT)


# -- back-pressure ------------------------------------------------------------------------------


def test_events_in_flight_never_exceed_the_cap_and_everything_gets_done(
    kafka: Kafka, make_topic: MakeTopic
) -> None:
    topic, group = make_topic(partitions=3), unique_group()
    produce(kafka.bootstrap, topic, 1000)
    most = 0

    def work(delivery: Delivery) -> Task:
        nonlocal most
        most = max(most, member.worker._dispatcher.in_flight)
        yield Sleep(0.02)

    settings = settings_for(kafka.bootstrap, group, topic, in_flight_high=100, in_flight_low=50)
    member = Member(settings, work)
    with running(member):
        eventually(lambda: member.seen.counts["settled"] == 1000, "1,000 events settled")
        assert member.stop() is Exit.OK
    assert 50 < most <= 100
    assert len(member.events) == 1000
    assert committed(kafka.bootstrap, group, topic) == ends(kafka.bootstrap, topic, 3)


def test_one_slow_event_fills_its_own_window_and_stops_its_own_partition_alone(
    kafka: Kafka, make_topic: MakeTopic
) -> None:
    topic, group = make_topic(partitions=2), unique_group()
    produce(kafka.bootstrap, topic, 300, partition=0)
    produce(kafka.bootstrap, topic, 300, partition=1)
    gate = Gate()

    def work(delivery: Delivery) -> Task:
        if (delivery.partition, delivery.offset) == (0, 0):
            yield Perform("io", gate)

    member = Member(settings_for(kafka.bootstrap, group, topic, window=100), work)
    with running(member):
        eventually(lambda: member.seen.counts["settled"] >= 399, "the other partition settled")
        assert {p.number: r for p, r in member.seen.paused_now.items()} == {0: "window"}
        gate.open()
        eventually(lambda: member.seen.counts["settled"] == 600, "everything settled")
        assert member.stop() is Exit.OK
    assert committed(kafka.bootstrap, group, topic) == {0: 300, 1: 300}


# -- publishing ------------------------------------------------------------------------------------


def test_a_refused_publish_holds_its_own_offset_and_no_other(
    kafka: Kafka, make_topic: MakeTopic
) -> None:
    topic, group = make_topic(partitions=2), unique_group()
    small = make_topic("results", config={"max.message.bytes": "2000"})
    produce(kafka.bootstrap, topic, 1, partition=0, value=b"x" * 5000)
    produce(kafka.bootstrap, topic, 50, partition=0)
    produce(kafka.bootstrap, topic, 50, partition=1)
    refusals: list[PublishRefused] = []
    may_cut = False

    def work(delivery: Delivery) -> Task:
        value = delivery.value
        while True:
            try:
                yield Publish(Message(small, delivery.key, value))
                return
            except PublishRefused as refused:
                refusals.append(refused)
                value = b"cut" if may_cut else value
            yield Sleep(0.05)

    member = Member(settings_for(kafka.bootstrap, group, topic), work)
    with running(member):
        eventually(lambda: member.seen.counts["settled"] == 100, "all others settled")
        eventually(lambda: len(refusals) > 3, "tried again in place")
        eventually(
            lambda: committed(kafka.bootstrap, group, topic) == {0: 0, 1: 50},
            "the other partition went on",
        )
        may_cut = True
        eventually(lambda: member.seen.counts["settled"] == 101, "settled after the cut")
        assert member.stop() is Exit.OK
    assert committed(kafka.bootstrap, group, topic) == {0: 51, 1: 50}
    assert ends(kafka.bootstrap, small, 1) == {0: 101}
    assert {(r.code, r.too_large) for r in refusals} == {("MSG_SIZE_TOO_LARGE", True)}


def test_a_result_for_a_topic_that_does_not_exist_is_refused_not_lost_silently(
    kafka: Kafka, make_topic: MakeTopic
) -> None:
    topic, group = make_topic(), unique_group()
    produce(kafka.bootstrap, topic, 1)
    refusals: list[tuple[str, bool]] = []

    def work(delivery: Delivery) -> Task:
        try:
            yield Publish(Message("no-such-results-topic", None, b"v"))
        except PublishRefused as refused:
            refusals.append((refused.code, refused.too_large))
        yield Sleep(1000)

    settings = settings_for(
        kafka.bootstrap,
        group,
        topic,
        producer={"delivery.timeout.ms": 2000, "topic.metadata.propagation.max.ms": 500},
    )
    member = Member(settings, work)
    with running(member):
        eventually(lambda: refusals, "the publish was refused")
    assert refusals[0][1] is False
    assert committed(kafka.bootstrap, group, topic) == {0: 0}
