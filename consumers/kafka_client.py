"""librdkafka properties from the settings: what every Kafka client of ours starts from."""

from __future__ import annotations

from consumers.settings import Settings, read_secret


def kafka_client(settings: Settings) -> dict[str, str]:
    """librdkafka properties for every client of ours: security and what the operator adds.

    :raises SettingsError: a secret's file cannot be read.
    """
    kafka = settings.kafka
    values = {
        "security.protocol": kafka.security_protocol,
        "sasl.mechanisms": kafka.sasl_mechanism,
        "sasl.username": kafka.sasl_username,
        "sasl.password": read_secret(
            kafka.sasl_password, kafka.sasl_password_file, "kafka.sasl_password"
        ),
        "ssl.ca.location": kafka.ssl_ca_file,
        "ssl.certificate.location": kafka.ssl_certificate_file,
        "ssl.key.location": kafka.ssl_key_file,
        "ssl.key.password": read_secret(kafka.ssl_key_password, None, "kafka.ssl_key_password"),
    }
    return {name: str(v) for name, v in values.items() if v is not None} | dict(kafka.client)
