"""What there is to set. `consumers.settings` reads it; ``deploy/SETTINGS.md`` is generated from it:
the text below a field is what it says there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SecretStr,
    model_validator,
)

from consumers.providers.settings import Kind, ProviderSettings
from consumers.urls import Url
from schemas.policy import Policy
from schemas.topics import TopicSettings
from schemas.units import Duration, Size

MIB = 1024 * 1024
GIB = 1024 * MIB


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


def _as_text(values: Any) -> Any:
    """librdkafka takes text; a file says ``5000`` and ``true``."""
    if not isinstance(values, dict):
        return values
    return {
        name: str(value).lower() if isinstance(value, bool | int | float) else value
        for name, value in values.items()
    }


_SECRET_PROPERTY = ("password", "secret", "passphrase", "key.pem", "oauthbearer.config")


def redacted_properties(properties: dict[str, str]) -> dict[str, str]:
    """librdkafka properties for people: those that are secret, or could be, are stars."""
    return {
        name: "**********" if any(word in name.lower() for word in _SECRET_PROPERTY) else value
        for name, value in properties.items()
    }


def _one_of(section: Section, value: str, file: str, *, required: bool = False) -> None:
    given = [name for name in (value, file) if getattr(section, name) is not None]
    if len(given) == 2:
        raise ValueError(f"set {value} or {file}, not both")
    if required and not given:
        raise ValueError(f"{value} or {file} must be set")


class OAuthSettings(Section):
    """SASL OAUTHBEARER: client credentials grant, token fetched and renewed by the Kafka client."""

    token_endpoint: Url
    """The identity provider's token endpoint: https, or http on this machine."""
    client_id: str = Field(min_length=1)
    """The client's id at the identity provider."""
    client_secret: SecretStr | None = None
    """The client's secret."""
    client_secret_file: Path | None = None
    """A file that holds the client's secret."""
    scope: str | None = None
    """Scopes to ask for, separated by spaces."""
    extensions: str | None = None
    """SASL extensions that the brokers want: key=value,key=value."""
    ca_file: Path | None = None
    """PEM certificates to check the token endpoint against, in place of the system's."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        _one_of(self, "client_secret", "client_secret_file", required=True)
        url = urlsplit(self.token_endpoint)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise ValueError("token_endpoint must be https://host/path")
        if url.scheme == "http" and url.hostname not in ("localhost", "127.0.0.1", "::1"):
            raise ValueError("token_endpoint is plain http, which would send the secret readable")
        return self


class KafkaSettings(Section):
    """Where events come from and results go to."""

    bootstrap_servers: str = Field("localhost:9092", min_length=1)
    """Brokers to start from: host:port, separated by commas."""
    group_id: str = Field("bundle-extractor", min_length=1)
    """The consumer group that all workers share."""
    group_protocol: Literal["classic", "consumer"] = "classic"
    """How the group divides partitions; `consumer` is KIP-848, brokers 4.0 and later."""
    start_from: Literal["earliest", "latest"] = "earliest"
    """Where a group without committed offsets starts."""
    security_protocol: Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"] = "plaintext"
    """`ssl` and `sasl_ssl` encrypt; `sasl_...` needs sasl_mechanism."""
    sasl_mechanism: Literal["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER"] | None = None
    """How the client shows who it is: the first three with sasl_username and a password,
    OAUTHBEARER with the settings below kafka.oauth."""
    sasl_username: str | None = None
    """The user's name for SCRAM and PLAIN."""
    sasl_password: SecretStr | None = None
    """The user's password."""
    sasl_password_file: Path | None = None
    """A file that holds the user's password."""
    oauth: OAuthSettings | None = None
    ssl_ca_file: Path | None = None
    """PEM certificates to check the brokers against, in place of the system's."""
    ssl_certificate_file: Path | None = None
    """PEM certificate of this client, for mutual TLS."""
    ssl_key_file: Path | None = None
    """PEM private key of this client, for mutual TLS."""
    ssl_key_password: SecretStr | None = None
    """What the private key is encrypted with."""
    ssl_key_password_file: Path | None = None
    """A file that holds what the private key is encrypted with."""
    client: Annotated[
        dict[str, str],
        BeforeValidator(_as_text),
        PlainSerializer(redacted_properties, when_used="json"),
    ] = Field(default_factory=dict, repr=False)
    """Further librdkafka properties, for consumer and producer alike."""
    max_poll_interval: Duration = Field(60.0, gt=0)
    """Only detects a hang: a job may take as long as it takes."""
    commit_interval: Duration = Field(2.0, gt=0)
    """How often offsets are committed."""
    in_flight_high: int = Field(2000, gt=0)
    """Events in flight at which intake pauses."""
    in_flight_low: int = Field(1400, ge=0)
    """Events in flight at which intake goes on."""
    window: int = Field(10_000, gt=0)
    """How far a partition may run ahead of its committed offset, in offsets."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        _one_of(self, "sasl_password", "sasl_password_file")
        _one_of(self, "ssl_key_password", "ssl_key_password_file")
        if (self.ssl_certificate_file is None) != (self.ssl_key_file is None):
            raise ValueError("ssl_certificate_file and ssl_key_file must be set together")
        if any(name.lower().startswith("sasl.") for name in self.client):
            return self  # the operator has taken it into his own hands
        sasl, mechanism = self.security_protocol.startswith("sasl"), self.sasl_mechanism
        if sasl and mechanism is None:
            raise ValueError(
                f"security_protocol is {self.security_protocol}, so sasl_mechanism must be set"
            )
        if mechanism is not None and not sasl:
            raise ValueError(
                f"sasl_mechanism is {mechanism}, so security_protocol must be sasl_ssl "
                "(or sasl_plaintext)"
            )
        if mechanism == "OAUTHBEARER":
            if self.oauth is None:
                raise ValueError("sasl_mechanism is OAUTHBEARER, so kafka.oauth must be set")
        elif mechanism is not None and (
            not self.sasl_username or not (self.sasl_password or self.sasl_password_file)
        ):
            raise ValueError(
                f"sasl_mechanism is {mechanism}, so sasl_username and sasl_password_file "
                "(or sasl_password) must be set"
            )
        return self


class StoreCredentials(Section):
    """One S3 endpoint with one identity."""

    endpoint: Url = "http://localhost:9000"
    """http(s)://host[:port] of the S3 server."""
    region: str = "us-east-1"
    """The region that requests are signed for."""
    access_key: SecretStr | None = None
    """The identity's access key."""
    access_key_file: Path | None = None
    """A file that holds the access key."""
    secret_key: SecretStr | None = None
    """The identity's secret key."""
    secret_key_file: Path | None = None
    """A file that holds the secret key."""
    session_token: SecretStr | None = None
    """The third part of temporary credentials. It ends; a worker takes a new one when it starts."""
    session_token_file: Path | None = None
    """A file that holds the session token."""
    addressing: Literal["path", "virtual"] = "path"
    """Where the bucket's name goes: /bucket/key, or bucket.host."""
    ca_file: Path | None = None
    """PEM certificates to check the server against, in place of the system's."""
    connect_timeout: Duration = Field(5.0, gt=0)
    """For a connection to come about."""
    read_timeout: Duration = Field(30.0, gt=0)
    """For each wait for bytes."""

    @model_validator(mode="after")
    def _one_source_each(self) -> Self:
        for name in ("access_key", "secret_key", "session_token"):
            _one_of(self, name, f"{name}_file")
        return self


class InputCredentials(StoreCredentials):
    """Another identity, and if need be endpoint, to read sources with; reading is all it needs.
    What is not given is as in ``store``, but for the keys."""


_SHARED = ("endpoint", "region", "addressing", "ca_file", "connect_timeout", "read_timeout")


class StoreSettings(StoreCredentials):
    """Where manifests, images and job records go, and (unless ``input`` is given) sources are."""

    output_bucket: str = "bundles-output"
    """Where everything of ours is written."""
    input_bucket: str = "bundles-input"
    """Where sources are read from when an event names no bucket."""
    readable_buckets: tuple[str, ...] = ()
    """Further buckets that events may name sources in."""
    input: InputCredentials | None = None
    server_side_encryption: Literal["AES256", "aws:kms"] | None = None
    """Encryption asked for with every write: AES256 is SSE-S3, aws:kms is SSE-KMS."""
    kms_key_id: str | None = None
    """The key for aws:kms; without it the bucket's own."""
    probe: bool = True
    """At start, refuse a store that ignores conditional writes."""

    @model_validator(mode="before")
    @classmethod
    def _input_is_like_output(cls, values: Any) -> Any:
        if not isinstance(values, dict) or not isinstance(values.get("input"), dict):
            return values
        shared = {name: values[name] for name in _SHARED if name in values}
        return {**values, "input": {**shared, **values["input"]}}

    @model_validator(mode="after")
    def _key_needs_kms(self) -> Self:
        if self.kms_key_id and self.server_side_encryption != "aws:kms":
            raise ValueError("kms_key_id is set, so server_side_encryption must be aws:kms")
        return self


class SandboxSettings(Section):
    """Limits of the processes that parse documents and images."""

    processes: int = Field(2, gt=0, le=64)
    """How many parse at the same time. Documents that take long go on beside them, in up to twice
    as many more: the machine or container needs `memory` for three times this number."""
    memory: Size = Field(1024 * MIB, gt=0)
    """Address space of each, beyond which a document is refused."""
    cpu_time: Duration = Field(10.0, gt=0)
    """Processor time of one call."""
    wall_time: Duration = Field(30.0, gt=0)
    """Time of one call."""


class TempSettings(Section):
    """Local files: private, owned, within a quota."""

    dir: Path | None = None
    """Where they are. Not set: a directory of ours below the system's one."""
    quota: Size = Field(4 * GIB, gt=0)
    """What this worker's files may take together."""
    min_free: Size = Field(512 * MIB, ge=0)
    """Free space on that disk below which intake pauses."""
    lifetime: Duration = Field(6 * 3600.0, gt=0)
    """After which files that nobody uses are removed; they are fetched again when needed."""


class WorkerSettings(Section):
    """How much is done at the same time."""

    documents: int = Field(64, gt=0)
    """Documents that hold local files at the same time."""
    jobs_per_provider: int = Field(200, gt=0)
    """Jobs at one service at the same time, where `worker.jobs` does not say otherwise."""
    jobs: dict[str, int] = Field(default_factory=dict)
    """Jobs at one service at the same time, per provider name."""
    store_threads: int = Field(16, gt=0)
    """Calls of the output store at the same time, and as many of the input store."""
    provider_threads: int = Field(16, gt=0)
    """Calls of extraction services at the same time."""
    download_threads: int = Field(8, gt=0)
    """Images fetched at the same time."""
    grace: Duration = Field(25.0, gt=0)
    """From SIGTERM to the end of the process. Keep the orchestrator's own above it."""
    loop_stuck_after: Duration = Field(15.0, gt=0)
    """A control loop without a sign of life for so long ends the process."""
    partition_stuck_after: Duration = Field(60.0, gt=0)
    """A partition with lag that does not move for so long is assigned anew, then ends the
    process."""
    storm_threshold: int = Field(10, gt=1)
    """Bundles refused in a row, with no success between, before dead letters are held back."""
    one_core: bool = True
    """The worker's own threads stay together on one processor core, and move when others need it:
    a quarter less CPU. Documents are parsed on all cores. Linux only."""


class HttpSettings(Section):
    """Where metrics, health and status are served."""

    host: str = "127.0.0.1"
    """The address to listen on; 0.0.0.0 for all, as in a container."""
    port: int = Field(9108, ge=0, le=65535)
    """0 takes a free one."""


class LogSettings(Section):
    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least that is logged."""
    format: Literal["auto", "json", "human"] = "auto"
    """`auto`: human on a terminal, JSON elsewhere."""


class Settings(Section):
    kafka: KafkaSettings = KafkaSettings()
    topics: TopicSettings = TopicSettings()
    store: StoreSettings = StoreSettings()
    sandbox: SandboxSettings = SandboxSettings()
    temp: TempSettings = TempSettings()
    worker: WorkerSettings = WorkerSettings()
    http: HttpSettings = HttpSettings()
    log: LogSettings = LogSettings()
    providers: dict[str, ProviderSettings] = Field(
        default_factory=lambda: {"selfhosted": ProviderSettings(kind=Kind.SELFHOSTED)}
    )
    policies: dict[str, Policy] = Field(default_factory=dict)
    """By name; ``default`` is always there."""
    secrets_dir: Path | None = None
    """A directory with one file per password secret that events may refer to by name."""

    def policies_of(self, provider: str) -> list[Policy]:
        return [policy for policy in self.policies.values() if policy.provider == provider]

    def forbidden_regions(self, provider: str) -> set[str]:
        """Of all policies that use the provider: it is asked once, for all of their documents."""
        return {r for policy in self.policies_of(provider) for r in policy.forbidden_regions}
