"""A site as operators secure it: Apache Kafka with TLS, SASL and ACLs, S3 over TLS with a private
certificate authority and an identity each for reading sources and for writing output."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from consumers.kafka_access import GROUP_OPERATION, TOPIC_OPERATIONS
from deploy.local.kafka import KafkaCluster
from deploy.local.kafka_security import KafkaSecurity
from deploy.local.s3 import S3Identity, S3Server, S3Tls
from tests.integration.deploy.local.certificates import Authority
from tests.pipeline import Pipeline
from tests.secure.identity_provider import IdentityProvider

WORKER = "worker"
"""The SCRAM user."""
SERVICE = "oauth-worker"
"""The subject of the tokens."""

_OAUTH_LOGIN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"

Acl = tuple[str, str, str]
"""(kind of resource: TOPIC or GROUP, its name, operation)"""


@dataclass
class Site:
    folder: Path
    authority: Authority
    kafka: KafkaCluster
    s3: S3Server
    identity_provider: IdentityProvider
    passwords: Mapping[str, str] = field(repr=False)
    """By the name of their file."""

    def secret_file(self, name: str) -> str:
        """A secret as it is mounted: a file that only its owner may read."""
        file = self.folder / f"{name}.secret"
        file.touch(mode=0o600)
        file.write_text(self.passwords[name] + "\n")
        return str(file)

    # -- settings of a worker, as environment variables ------------------------------------------

    def scram(self, *, password: str = "kafka") -> dict[str, str]:
        return {
            "BUNDLES_KAFKA__BOOTSTRAP_SERVERS": self.kafka.bootstrap,
            "BUNDLES_KAFKA__SECURITY_PROTOCOL": "sasl_ssl",
            "BUNDLES_KAFKA__SASL_MECHANISM": "SCRAM-SHA-512",
            "BUNDLES_KAFKA__SASL_USERNAME": WORKER,
            "BUNDLES_KAFKA__SASL_PASSWORD_FILE": self.secret_file(password),
            "BUNDLES_KAFKA__SSL_CA_FILE": str(self.authority.certificate),
            "BUNDLES_KAFKA__CLIENT": '{"socket.timeout.ms": 20000}',
        }

    def oauth(self) -> dict[str, str]:
        return {
            "BUNDLES_KAFKA__BOOTSTRAP_SERVERS": self.kafka.bootstrap,
            "BUNDLES_KAFKA__SECURITY_PROTOCOL": "sasl_ssl",
            "BUNDLES_KAFKA__SASL_MECHANISM": "OAUTHBEARER",
            "BUNDLES_KAFKA__SSL_CA_FILE": str(self.authority.certificate),
            "BUNDLES_KAFKA__OAUTH__TOKEN_ENDPOINT": self.identity_provider.endpoint,
            "BUNDLES_KAFKA__OAUTH__CLIENT_ID": "bundles",
            "BUNDLES_KAFKA__OAUTH__CLIENT_SECRET_FILE": self.secret_file("oauth"),
            "BUNDLES_KAFKA__OAUTH__SCOPE": "kafka",
            "BUNDLES_KAFKA__OAUTH__CA_FILE": str(self.authority.certificate),
        }

    def store(self) -> dict[str, str]:
        return {
            "BUNDLES_STORE__CA_FILE": str(self.authority.certificate),
            "BUNDLES_STORE__SERVER_SIDE_ENCRYPTION": "AES256",
            "BUNDLES_STORE__ACCESS_KEY": "writer-key",
            "BUNDLES_STORE__SECRET_KEY_FILE": self.secret_file("writer"),
            "BUNDLES_STORE__INPUT__ACCESS_KEY": "reader-key",
            "BUNDLES_STORE__INPUT__SECRET_KEY_FILE": self.secret_file("reader"),
        }

    # -- what there is ---------------------------------------------------------------------------

    def pipeline(self, folder: Path, *, output_bucket: str = "output") -> Pipeline:
        """Topics of its own; set up and read by the owner, over the listener for administrators.

        The buckets are the site's: identities are bound to them by name.
        """
        folder.mkdir()
        pipeline = Pipeline(
            bootstrap=self.kafka.internal_bootstrap,
            s3_endpoint=self.s3.endpoint,
            s3_access_key=self.s3.access_key,
            s3_secret_key=self.s3.secret_key,
            folder=folder,
            partitions=2,
            settings_tree={"store": {"ca_file": str(self.authority.certificate)}},
        )
        pipeline.input_bucket, pipeline.output_bucket = "input", output_bucket
        return pipeline

    def grant(self, user: str, acls: Iterable[Acl]) -> None:
        bindings = [_binding(user, acl) for acl in acls]
        admin = self._admin()  # its answers end with it
        for made in admin.create_acls(bindings).values():
            made.result(60)

    def revoke(self, user: str, acl: Acl) -> None:
        kind, name, operation = acl
        wanted = AclBindingFilter(
            ResourceType[kind],
            name,
            ResourcePatternType.LITERAL,
            f"User:{user}",
            "*",
            AclOperation[operation],
            AclPermissionType.ALLOW,
        )
        admin = self._admin()
        (deleted,) = admin.delete_acls([wanted]).values()
        assert len(deleted.result(60)) == 1

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.kafka.internal_bootstrap})


def needed_acls(pipeline: Pipeline) -> list[Acl]:
    """Exactly what is documented, and nothing else."""
    names = pipeline.topics.model_dump()
    topics = [("TOPIC", names[role], operation) for role, operation in TOPIC_OPERATIONS.items()]
    return [*topics, ("GROUP", pipeline.group, GROUP_OPERATION)]


@contextlib.contextmanager
def running_site(folder: Path) -> Iterator[Site]:
    """SCRAM-SHA-512 and OAUTHBEARER over TLS, ACLs on."""
    authority = Authority(folder)
    names = ("kafka", "oauth", "writer", "reader")
    passwords = {name: secrets.token_urlsafe(18) for name in names}
    kafka = KafkaCluster(
        security=KafkaSecurity(
            "SASL_SSL",
            scram_users={WORKER: passwords["kafka"]},
            keystore_pem=authority.issue_keystore("broker"),
            acls=True,
        ),
        properties={
            "sasl.enabled.mechanisms": "SCRAM-SHA-512,OAUTHBEARER",
            "listener.name.client.oauthbearer.sasl.jaas.config": f"{_OAUTH_LOGIN} required;",
        },
    )
    with contextlib.ExitStack() as stack:
        stack.enter_context(kafka)
        s3 = stack.enter_context(secured_s3(authority, passwords))
        for bucket in ("input", "output"):
            s3.client().make_bucket(bucket)
        provider = stack.enter_context(
            IdentityProvider(
                *authority.issue("identity-provider"),
                client_id="bundles",
                secret=passwords["oauth"],
                subject=SERVICE,
            )
        )
        yield Site(folder, authority, kafka, s3, provider, passwords)


def secured_s3(authority: Authority, passwords: Mapping[str, str]) -> S3Server:
    certificate, key = authority.issue("s3")
    return S3Server(
        tls=S3Tls(certificate, key, authority.certificate),
        identities=[
            S3Identity("reader", "reader-key", passwords["reader"], ("Read:input", "List:input")),
            S3Identity(
                "writer",
                "writer-key",
                passwords["writer"],
                ("Read:output", "Write:output", "List:output"),
            ),
        ],
    )


def _binding(user: str, acl: Acl) -> AclBinding:
    kind, name, operation = acl
    return AclBinding(
        ResourceType[kind],
        name,
        ResourcePatternType.LITERAL,
        f"User:{user}",
        "*",
        AclOperation[operation],
        AclPermissionType.ALLOW,
    )
