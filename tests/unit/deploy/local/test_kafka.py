"""Decisions of the Kafka starter that need no Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.local import kafka
from deploy.local.jars import JarsUnavailable
from deploy.local.java import JavaMissing
from deploy.local.kafka import KafkaCluster, start_kafka
from deploy.local.kafka_security import KafkaSecurity

_NO_JAVA = JavaMissing("No Java 17 or later was found.")
_NO_JARS = JarsUnavailable("45 of Kafka's 45 jars could not be fetched")


def _refuse(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def raising(*_: object) -> str:
        raise error

    monkeypatch.setattr(kafka, "find_java", raising)


@pytest.mark.parametrize("error", [_NO_JAVA, _NO_JARS])
def test_auto_falls_back_to_the_embedded_kafka_and_says_so(
    error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _refuse(monkeypatch, error)
    with start_kafka("auto") as running:
        assert running.kind == "embedded"
        assert "not Apache Kafka" in running.description
        assert running.bootstrap.startswith("127.0.0.1:")
    assert str(error) in caplog.text


@pytest.mark.parametrize("error", [_NO_JAVA, _NO_JARS])
def test_who_asks_for_apache_kafka_gets_no_other(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    _refuse(monkeypatch, error)
    with pytest.raises(type(error)):
        start_kafka("apache")


def test_mutual_tls_needs_the_ca_of_the_clients() -> None:
    with pytest.raises(ValueError, match="truststore_pem"):
        KafkaSecurity("SSL", keystore_pem=Path("broker.pem")).properties()


def test_tls_needs_the_brokers_certificate() -> None:
    with pytest.raises(ValueError, match="keystore_pem"):
        KafkaSecurity("SASL_SSL").properties()


def test_a_cluster_of_two_is_refused_because_it_survives_no_loss() -> None:
    with pytest.raises(ValueError, match="1 broker or 3"):
        KafkaCluster(2)
