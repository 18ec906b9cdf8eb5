"""TLS, SCRAM and ACLs on the local Kafka, so that the worker can be tested against them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

# The rest is documented but not marked as exported.
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from deploy.local.kafka import KafkaCluster
from deploy.local.kafka_security import KafkaSecurity
from tests.integration.deploy.local.certificates import Authority
from tests.servers import create_topic

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def scram(authority: Authority) -> Iterator[KafkaCluster]:
    security = KafkaSecurity(
        "SASL_SSL",
        scram_users={"worker": "worker-password", "stranger": "stranger-password"},
        keystore_pem=authority.issue_keystore("broker"),
        acls=True,
    )
    with KafkaCluster(1, security=security) as cluster:
        create_topic(cluster.internal_bootstrap, "secret", 1)
        admin = AdminClient({"bootstrap.servers": cluster.internal_bootstrap})
        bindings = [
            AclBinding(
                ResourceType.TOPIC,
                "secret",
                ResourcePatternType.LITERAL,
                "User:worker",
                "*",
                operation,
                AclPermissionType.ALLOW,
            )
            for operation in (AclOperation.WRITE, AclOperation.DESCRIBE)
        ]
        for made in admin.create_acls(bindings).values():
            made.result(60)
        yield cluster


def _config(
    cluster: KafkaCluster, authority: Authority, user: str, password: str
) -> dict[str, Any]:
    return {
        "bootstrap.servers": cluster.bootstrap,
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": user,
        "sasl.password": password,
        "ssl.ca.location": str(authority.certificate),
    }


def _write(config: dict[str, Any]) -> KafkaError | None:
    answers: list[KafkaError | None] = []
    producer = Producer({**config, "message.timeout.ms": 60_000})
    producer.produce("secret", b"x", on_delivery=lambda error, _: answers.append(error))
    assert producer.flush(90) == 0
    return answers[0]


def test_a_user_with_an_acl_may_write(scram: KafkaCluster, authority: Authority) -> None:
    assert _write(_config(scram, authority, "worker", "worker-password")) is None


def test_a_user_without_an_acl_may_not(scram: KafkaCluster, authority: Authority) -> None:
    error = _write(_config(scram, authority, "stranger", "stranger-password"))
    assert error is not None
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_a_wrong_password_is_refused(scram: KafkaCluster, authority: Authority) -> None:
    errors: list[KafkaError] = []
    config = _config(scram, authority, "worker", "wrong")
    config |= {"error_cb": errors.append, "log_level": 0}
    admin = AdminClient(config)
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=5)
    admin.poll(5)
    assert KafkaError._AUTHENTICATION in {error.code() for error in errors}


def test_a_client_that_does_not_know_the_ca_does_not_connect(scram: KafkaCluster) -> None:
    config: dict[str, Any] = {
        "bootstrap.servers": scram.bootstrap,
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "worker",
        "sasl.password": "worker-password",
        "log_level": 0,
    }
    with pytest.raises(KafkaException):
        AdminClient(config).list_topics(timeout=5)


def test_mutual_tls_knows_a_client_by_its_certificate(authority: Authority, tmp_path: Path) -> None:
    security = KafkaSecurity(
        "SSL",
        keystore_pem=authority.issue_keystore("mtls-broker"),
        truststore_pem=authority.certificate,
        acls=True,
        super_users=["CN=worker"],
    )
    certificate, key = authority.issue("worker")
    stranger, stranger_key = authority.issue("nobody-knows")
    with KafkaCluster(1, security=security) as cluster:
        create_topic(cluster.internal_bootstrap, "secret", 1)
        config: dict[str, Any] = {
            "bootstrap.servers": cluster.bootstrap,
            "security.protocol": "SSL",
            "ssl.ca.location": str(authority.certificate),
        }
        assert (
            _write(
                {
                    **config,
                    "ssl.certificate.location": str(certificate),
                    "ssl.key.location": str(key),
                }
            )
            is None
        )
        error = _write(
            {
                **config,
                "ssl.certificate.location": str(stranger),
                "ssl.key.location": str(stranger_key),
            }
        )
        assert error is not None
        assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
        with pytest.raises(KafkaException):
            AdminClient({**config, "log_level": 0}).list_topics(timeout=5)
