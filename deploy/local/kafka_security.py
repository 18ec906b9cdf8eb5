"""Listeners with TLS, SCRAM and ACLs for the local Kafka."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class KafkaSecurity:
    """What clients must do to get in; brokers talk among themselves in plaintext on loopback.

    ``protocol``: SSL demands client certificates (mTLS). ``scram_users`` (name -> password) are
    created when the storage is formatted. With ``acls`` on, a client may do what an ACL allows
    and nothing else; ``super_users`` and connections to `KafkaCluster.internal_bootstrap` may do
    everything. PEM files: the broker's certificate chain with its key, and the CA certificates
    that client certificates are checked against.
    """

    protocol: Literal["SASL_PLAINTEXT", "SASL_SSL", "SSL"]
    scram_users: Mapping[str, str] = field(default_factory=dict)
    mechanism: Literal["SCRAM-SHA-256", "SCRAM-SHA-512"] = "SCRAM-SHA-512"
    keystore_pem: Path | None = None
    truststore_pem: Path | None = None
    acls: bool = False
    super_users: Sequence[str] = ()

    def properties(self) -> dict[str, str]:
        """The broker's own settings, without the listeners."""
        settings: dict[str, str] = {}
        if self.protocol != "SSL":
            settings["sasl.enabled.mechanisms"] = self.mechanism
            listener = f"listener.name.client.{self.mechanism.lower()}.sasl.jaas.config"
            settings[listener] = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        if self.protocol != "SASL_PLAINTEXT":
            if self.keystore_pem is None:
                raise ValueError(f"{self.protocol} needs keystore_pem: certificate chain and key")
            settings["ssl.keystore.type"] = "PEM"
            settings["ssl.keystore.location"] = str(self.keystore_pem)
        if self.truststore_pem is not None:
            settings["ssl.truststore.type"] = "PEM"
            settings["ssl.truststore.location"] = str(self.truststore_pem)
        if self.protocol == "SSL":
            # Without a certificate the client would be ANONYMOUS, who is us and may do everything.
            if self.truststore_pem is None:
                raise ValueError("SSL needs truststore_pem: the CA of the clients' certificates")
            settings["ssl.client.auth"] = "required"
        if self.acls:
            settings["authorizer.class.name"] = (
                "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
            )
            settings["super.users"] = ";".join(
                f"User:{name}" for name in ("ANONYMOUS", *self.super_users)
            )
        return settings
