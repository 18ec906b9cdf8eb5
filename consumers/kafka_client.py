"""librdkafka properties from the settings: what every Kafka client of ours starts from."""

from __future__ import annotations

import os
from pathlib import Path

from consumers.settings import KafkaSettings, Settings, SettingsError, read_secret


def kafka_client(settings: Settings) -> dict[str, str]:
    """librdkafka properties for every client of ours: security and what the operator adds.

    :raises SettingsError: a file cannot be read.
    """
    kafka = settings.kafka
    values = {
        "security.protocol": kafka.security_protocol,
        "sasl.mechanisms": kafka.sasl_mechanism,
        "sasl.username": kafka.sasl_username,
        "sasl.password": read_secret(
            kafka.sasl_password, kafka.sasl_password_file, "kafka.sasl_password"
        ),
        "ssl.ca.location": _readable(kafka.ssl_ca_file, "kafka.ssl_ca_file"),
        "ssl.certificate.location": _readable(
            kafka.ssl_certificate_file, "kafka.ssl_certificate_file"
        ),
        "ssl.key.location": _readable(kafka.ssl_key_file, "kafka.ssl_key_file"),
        "ssl.key.password": read_secret(
            kafka.ssl_key_password, kafka.ssl_key_password_file, "kafka.ssl_key_password"
        ),
        **_oauth(kafka),
    }
    return {name: str(v) for name, v in values.items() if v is not None} | dict(kafka.client)


def _oauth(kafka: KafkaSettings) -> dict[str, str | Path | None]:
    oauth = kafka.oauth
    if oauth is None or kafka.sasl_mechanism != "OAUTHBEARER":
        return {}
    return {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": oauth.token_endpoint,
        "sasl.oauthbearer.client.id": oauth.client_id,
        "sasl.oauthbearer.client.secret": read_secret(
            oauth.client_secret, oauth.client_secret_file, "kafka.oauth.client_secret"
        ),
        "sasl.oauthbearer.scope": oauth.scope,
        "sasl.oauthbearer.extensions": oauth.extensions,
        "https.ca.location": _readable(oauth.ca_file, "kafka.oauth.ca_file"),
    }


def _readable(file: Path | None, name: str) -> Path | None:
    """The client's own error would not name the setting."""
    if file is not None and not (file.is_file() and os.access(file, os.R_OK)):
        raise SettingsError(f"{name}: {file} is no readable file")
    return file
