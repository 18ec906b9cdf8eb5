"""What Kafka clients are given for each way of showing who they are."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer

from consumers.kafka_client import kafka_client
from consumers.settings import SettingsError, load


def client(**variables: str) -> dict[str, str]:
    environment = {f"BUNDLES_KAFKA__{name}": value for name, value in variables.items()}
    return kafka_client(load(environment=environment))


@pytest.fixture
def file(tmp_path: Path) -> str:
    made = tmp_path / "file"
    made.write_text("s3cret\n")
    return str(made)


def test_without_settings_it_is_plaintext_and_nothing_else() -> None:
    assert client() == {"security.protocol": "plaintext"}


def test_scram_over_tls(file: str) -> None:
    assert client(
        SECURITY_PROTOCOL="sasl_ssl",
        SASL_MECHANISM="SCRAM-SHA-512",
        SASL_USERNAME="worker",
        SASL_PASSWORD_FILE=file,
        SSL_CA_FILE=file,
    ) == {
        "security.protocol": "sasl_ssl",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "worker",
        "sasl.password": "s3cret",
        "ssl.ca.location": file,
    }


def test_mutual_tls_with_an_encrypted_key(file: str) -> None:
    assert client(
        SECURITY_PROTOCOL="ssl",
        SSL_CERTIFICATE_FILE=file,
        SSL_KEY_FILE=file,
        SSL_KEY_PASSWORD_FILE=file,
    ) == {
        "security.protocol": "ssl",
        "ssl.certificate.location": file,
        "ssl.key.location": file,
        "ssl.key.password": "s3cret",
    }


def test_oauthbearer_is_left_to_the_clients_own_oidc_method(file: str) -> None:
    found = client(
        SECURITY_PROTOCOL="sasl_ssl",
        SASL_MECHANISM="OAUTHBEARER",
        OAUTH__TOKEN_ENDPOINT="https://id.example.org/token",
        OAUTH__CLIENT_ID="bundles",
        OAUTH__CLIENT_SECRET_FILE=file,
        OAUTH__SCOPE="kafka",
        OAUTH__EXTENSIONS="logicalCluster=lkc-1",
    )
    assert found == {
        "security.protocol": "sasl_ssl",
        "sasl.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": "https://id.example.org/token",
        "sasl.oauthbearer.client.id": "bundles",
        "sasl.oauthbearer.client.secret": "s3cret",
        "sasl.oauthbearer.scope": "kafka",
        "sasl.oauthbearer.extensions": "logicalCluster=lkc-1",
    }
    # That the client takes these names, this build of it included.
    Producer({**found, "bootstrap.servers": "127.0.0.1:1", "log_level": 0})


def test_what_the_operator_adds_comes_last() -> None:
    assert client(CLIENT='{"security.protocol": "ssl"}')["security.protocol"] == "ssl"


@pytest.mark.parametrize(
    ("name", "variables"),
    [
        ("ssl_ca_file", {}),
        ("ssl_certificate_file", {"SSL_KEY_FILE": __file__}),
        ("ssl_key_file", {"SSL_CERTIFICATE_FILE": __file__}),
    ],
)
def test_a_file_that_is_not_there_is_named_by_its_setting(
    name: str, variables: dict[str, str], tmp_path: Path
) -> None:
    missing = str(tmp_path / "missing.pem")
    with pytest.raises(SettingsError, match=rf"^kafka\.{name}: {missing} is no readable file"):
        client(**{name.upper(): missing}, **variables)
