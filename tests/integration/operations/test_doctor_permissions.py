"""`bundles doctor` on a Kafka that lets clients do only what an ACL allows."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

# The rest is documented but not marked as exported.
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from consumers.operations.checks import Check, Verdict
from consumers.operations.doctor_kafka import check_kafka
from consumers.settings import Settings, load
from deploy.local.kafka import KafkaCluster
from deploy.local.kafka_security import KafkaSecurity
from sinks.topics import ensure_topics

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(400)]

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    """``worker`` may do what a worker needs but for writing results; ``stranger`` nothing."""
    security = KafkaSecurity(
        "SASL_PLAINTEXT",
        scram_users={"worker": "worker-password", "stranger": "stranger-password"},
        acls=True,
    )
    with KafkaCluster(1, security=security) as running:
        internal = {"bootstrap.servers": running.internal_bootstrap}
        topics = settings(running, "worker").topics
        ensure_topics(internal, topics, partitions=1)
        allowed = [
            (TOPIC, topics.events, READ),
            (TOPIC, topics.results, DESCRIBE),
            (TOPIC, topics.dead_letters, WRITE),
            (TOPIC, topics.ledger, WRITE),
            (GROUP, "bundle-extractor", READ),
        ]
        admin = AdminClient({**internal})
        bindings = [
            AclBinding(
                kind,
                name,
                ResourcePatternType.LITERAL,
                "User:worker",
                "*",
                operation,
                AclPermissionType.ALLOW,
            )
            for kind, name, operation in allowed
        ]
        for made in admin.create_acls(bindings).values():
            made.result(60)
        yield running


def settings(cluster: KafkaCluster, user: str, password: str | None = None) -> Settings:
    return load(
        environment={},
        overrides={
            "kafka.bootstrap_servers": cluster.bootstrap,
            "kafka.security_protocol": "sasl_plaintext",
            "kafka.sasl_mechanism": "SCRAM-SHA-512",
            "kafka.sasl_username": user,
            "kafka.sasl_password": password or f"{user}-password",
        },
    )


def checks(cluster: KafkaCluster, user: str, password: str | None = None) -> dict[str, Check]:
    return {check.name: check for check in check_kafka(settings(cluster, user, password))}


def test_the_one_permission_that_a_worker_lacks_is_named(cluster: KafkaCluster) -> None:
    found = checks(cluster, "worker")

    wrong = [name for name, check in found.items() if check.verdict is Verdict.FAILED]
    assert wrong == ["permissions on bundles.results.v1"]
    assert "WRITE" in found["permissions on bundles.results.v1"].said
    assert found["permissions on bundles.events.v1"].verdict is Verdict.OK
    assert found["permissions on group bundle-extractor"].verdict is Verdict.OK
    settings_of = found["topic bundles.events.v1"]
    assert settings_of.verdict is Verdict.WARNING
    assert "could not be read (TOPIC_AUTHORIZATION_FAILED)" in settings_of.said
    assert "DESCRIBE_CONFIGS" in (settings_of.fix or "")


def test_topics_check_says_whose_settings_it_could_not_read(cluster: KafkaCluster) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "consumers.cli", "topics", "check"),
            *(f"--set=kafka.bootstrap_servers={cluster.bootstrap}",),
            *("--set=kafka.security_protocol=sasl_plaintext",),
            *("--set=kafka.sasl_mechanism=SCRAM-SHA-512", "--set=kafka.sasl_username=worker"),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | {"BUNDLES_KAFKA__SASL_PASSWORD": "worker-password"},
    )
    assert done.returncode == 1, done.stderr
    assert done.stdout.count("its settings could not be read (TOPIC_AUTHORIZATION_FAILED)") == 4


def test_one_who_may_nothing_is_told_so_for_every_topic_and_the_group(
    cluster: KafkaCluster,
) -> None:
    found = checks(cluster, "stranger")
    wrong = {name for name, check in found.items() if check.verdict is Verdict.FAILED}
    assert "permissions on group bundle-extractor" in wrong
    for topic in ("events", "results", "dead-letters", "ledger"):
        assert any(f"bundles.{topic}.v1" in name for name in wrong), found


def test_a_wrong_password_is_a_failure_that_does_not_show_it(cluster: KafkaCluster) -> None:
    (check,) = checks(cluster, "worker", "a-wrong-password").values()
    assert check.verdict is Verdict.FAILED
    assert "a-wrong-password" not in f"{check.said} {check.fix}"
