"""Where a key's records are, held against a producer like the worker's on a real broker."""

from __future__ import annotations

import json
import time
from contextlib import closing

import pytest
from confluent_kafka import Producer

from consumers.operations.ledger import Ledger
from consumers.operations.partitions import partition_of
from consumers.operations.reading import read_topic
from consumers.runtime.publisher import producer_config
from consumers.runtime.settings import RuntimeSettings
from tests.servers import Kafka, MakeTopic

pytestmark = pytest.mark.integration

KEYS = [f"{number:08x}-0000-5000-8000-000000000000" for number in range(200)] + ["bundle-ü"]


@pytest.fixture
def ledger(kafka: Kafka, make_topic: MakeTopic) -> str:
    """One line per key, each a second after the other, the last one now."""
    topic = make_topic("ledger", partitions=7)
    settings = RuntimeSettings(
        bootstrap_servers=kafka.bootstrap, group_id="unused", topics=("unused",)
    )
    producer = Producer(producer_config(settings))
    first = time.time() - len(KEYS)
    for number, key in enumerate(KEYS):
        line = {"extraction_id": key, "event": "ended", "at": str(number), "job_id": f"job-{key}"}
        at = int((first + number) * 1000)
        producer.produce(topic, json.dumps(line).encode(), key.encode(), timestamp=at)
    assert producer.flush(30) == 0
    return topic


def test_a_key_is_where_the_workers_producer_put_it(kafka: Kafka, ledger: str) -> None:
    client = {"bootstrap.servers": kafka.bootstrap}
    found = {
        (record.key() or b"").decode(): record.partition() for record in read_topic(client, ledger)
    }
    assert found == {key: partition_of(key, 7, client) for key in KEYS}


def test_lines_are_found_in_their_time_and_not_outside_of_it(kafka: Kafka, ledger: str) -> None:
    client = {"bootstrap.servers": kafka.bootstrap}
    now, key = time.time(), KEYS[100]

    def ask(since: float, until: float, budget_s: float = 30.0) -> tuple[int, str | None]:
        found = opened.lines_of([key], lambda _: True, since=since, until=until, budget_s=budget_s)
        return len(found.lines), found.incomplete

    with closing(Ledger(client, ledger)) as opened:
        assert ask(now - 150, now + 10) == (1, None)
        assert ask(now - 1000, now - 500)[0] == 0
        assert ask(now - 150, now + 10) == (1, None)
        assert ask(now - 30, now + 10) == (0, "the ledger has nothing about it (any more)")
        assert "--budget" in (ask(0, now, budget_s=0.0)[1] or "")


def test_lines_are_found_although_the_topic_was_given_more_partitions(
    kafka: Kafka, ledger: str
) -> None:
    from confluent_kafka.cimpl import NewPartitions

    admin = kafka.admin()  # kept until the answer is there: its end would cancel the request
    admin.create_partitions([NewPartitions(ledger, 11)])[ledger].result(30)
    client, now = {"bootstrap.servers": kafka.bootstrap}, time.time()
    moved = next(k for k in KEYS if partition_of(k, 7, client) != partition_of(k, 11, client))
    with closing(Ledger(client, ledger)) as opened:
        found = opened.lines_of([moved], lambda _: True, since=now - 1000, until=now, budget_s=30.0)
    assert len(found.lines) == 1


def test_a_search_finds_the_extraction_of_a_job_id(kafka: Kafka, ledger: str) -> None:
    job = f"job-{KEYS[7]}"
    with closing(Ledger({"bootstrap.servers": kafka.bootstrap}, ledger)) as opened:
        found, note = opened.search(
            job, lambda line: line.get("job_id") == job, since=0.0, budget_s=30.0
        )
    assert [line["extraction_id"] for line in found] == [KEYS[7]]
    assert note is None


def test_a_ledger_that_cannot_be_read_is_said_not_raised(kafka: Kafka) -> None:
    with closing(Ledger({"bootstrap.servers": kafka.bootstrap}, "no-such-topic")) as opened:
        found = opened.lines_of(
            ["key"], lambda _: True, since=0.0, until=time.time(), budget_s=10.0
        )
    assert "could not be read" in (found.incomplete or "")
