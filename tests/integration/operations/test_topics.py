"""`bundles topics` on three brokers of Apache Kafka: made as needed, and what is wrong is said."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from deploy.local.kafka import KafkaCluster
from schemas.topics import TopicSettings
from tests.servers import unique_name

pytestmark = pytest.mark.integration


def topics(command: str, cluster: KafkaCluster, names: TopicSettings, *arguments: str) -> Any:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "consumers.cli", "topics", command, "--json", *arguments),
            f"--set=kafka.bootstrap_servers={cluster.bootstrap}",
            *(f"--set=topics.{role}={name}" for role, name in names.model_dump().items()),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout, done.stderr
    return done.returncode, {report["name"]: report for report in json.loads(done.stdout)}


def named() -> TopicSettings:
    return TopicSettings(**{role: unique_name(role) for role in TopicSettings.model_fields})


def test_topics_that_we_made_are_as_needed(kafka3: KafkaCluster) -> None:
    names = named()
    topics("create", kafka3, names, "--partitions", "3", "--replication", "3")

    code, found = topics("check", kafka3, names)

    for report in found.values():
        assert (report["partitions"], report["replicas"], report["unread"]) == (3, 3, None)
        assert (report["problems"], report["warnings"]) == ([], [])
    assert code == 0


def test_each_planted_fault_is_said_of_its_topic_and_of_no_other(kafka3: KafkaCluster) -> None:
    names = named()
    safe = {"min.insync.replicas": "2", "retention.ms": "-1", "cleanup.policy": "delete"}
    planted: dict[str, tuple[int, dict[str, str]]] = {
        names.events: (3, safe | {"max.message.bytes": "4194304"}),
        names.results: (1, safe | {"max.message.bytes": "2097152", "min.insync.replicas": "1"}),
        # Enough for events as they are by default, too little for these.
        names.dead_letters: (3, safe | {"max.message.bytes": "4194304", "retention.ms": "60000"}),
        names.ledger: (3, safe | {"max.message.bytes": "1048576", "cleanup.policy": "compact"}),
    }
    new = [
        NewTopic(name, num_partitions=1, replication_factor=replicas, config=config)
        for name, (replicas, config) in planted.items()
    ]
    admin = AdminClient({"bootstrap.servers": kafka3.bootstrap})
    for made in admin.create_topics(new).values():
        made.result(60)

    code, found = topics("check", kafka3, names)

    assert code == 1
    said = {name: (found[name]["problems"], found[name]["warnings"]) for name in planted}
    assert said[names.events] == ([], [])
    assert [len(some) for some in said[names.results]] == [0, 1]
    assert "1 replica on 3 brokers" in said[names.results][1][0]
    assert [len(some) for some in said[names.dead_letters]] == [1, 1]
    assert "an event may have 4194304" in said[names.dead_letters][0][0]
    assert "retention.ms is 60000 (1m)" in said[names.dead_letters][1][0]
    assert [len(some) for some in said[names.ledger]] == [1, 0]
    assert "compact" in said[names.ledger][0][0]


def test_a_missing_topic_is_said_with_what_makes_it(kafka3: KafkaCluster) -> None:
    code, found = topics("check", kafka3, named())
    assert code == 1
    assert all("`bundles topics create`" in report["problems"][0] for report in found.values())
