"""The settings of a worker: command line over environment over file over defaults.

Environment names are ``BUNDLES_`` and the path of the setting with ``__`` between its parts, e.g.
``BUNDLES_KAFKA__BOOTSTRAP_SERVERS``. The file is TOML (``--config`` or ``BUNDLES_CONFIG``), one
table per section. Unknown names are errors that name the nearest match; a wrong value stops the
start with a sentence that names the setting and the fix. `bundles config show` prints what holds,
secrets redacted.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from consumers.providers.settings import Kind, ProviderSettings
from consumers.units import Duration, Size
from schemas.policy import Policy
from schemas.topics import TopicSettings

PREFIX = "BUNDLES_"
MIB = 1024 * 1024
GIB = 1024 * MIB


class SettingsError(Exception):
    """A setting is wrong. The text names it, says what is wrong and what to do."""


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class KafkaSettings(Section):
    """Where events come from and results go to."""

    bootstrap_servers: str = Field("localhost:9092", min_length=1)
    group_id: str = Field("bundle-extractor", min_length=1)
    group_protocol: Literal["classic", "consumer"] = "classic"
    """``consumer``: KIP-848, brokers 4.0 and later."""
    start_from: Literal["earliest", "latest"] = "earliest"
    """Where a group without committed offsets starts."""
    security_protocol: Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"] = "plaintext"
    sasl_mechanism: Literal["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER"] | None = None
    sasl_username: str | None = None
    sasl_password: SecretStr | None = None
    sasl_password_file: Path | None = None
    ssl_ca_file: Path | None = None
    ssl_certificate_file: Path | None = None
    ssl_key_file: Path | None = None
    ssl_key_password: SecretStr | None = None
    client: dict[str, str] = Field(default_factory=dict)
    """Further librdkafka properties, for consumer and producer alike."""
    max_poll_interval: Duration = Field(60.0, gt=0)
    """Only detects a hang: a job may take as long as it takes."""
    commit_interval: Duration = Field(2.0, gt=0)
    in_flight_high: int = Field(2000, gt=0)
    """Events in flight at which intake pauses."""
    in_flight_low: int = Field(1400, ge=0)
    window: int = Field(10_000, gt=0)
    """How far a partition may run ahead of its committed offset, in offsets."""


class StoreCredentials(Section):
    """One S3 endpoint with one identity."""

    endpoint: str = "http://localhost:9000"
    region: str = "us-east-1"
    access_key: SecretStr | None = None
    access_key_file: Path | None = None
    secret_key: SecretStr | None = None
    secret_key_file: Path | None = None
    addressing: Literal["path", "virtual"] = "path"
    ca_file: Path | None = None
    connect_timeout: Duration = Field(5.0, gt=0)
    read_timeout: Duration = Field(30.0, gt=0)


class StoreSettings(StoreCredentials):
    """Where manifests, images and job records go, and (unless ``input`` is given) sources are."""

    output_bucket: str = "bundles-output"
    input_bucket: str = "bundles-input"
    readable_buckets: tuple[str, ...] = ()
    """Further buckets that events may name sources in."""
    input: StoreCredentials | None = None
    """Another endpoint or identity to read sources with (read-only is enough)."""
    server_side_encryption: Literal["AES256", "aws:kms"] | None = None
    kms_key_id: str | None = None
    probe: bool = True
    """At start, refuse a store that ignores conditional writes."""


class SandboxSettings(Section):
    """Limits of the processes that parse documents and images."""

    processes: int = Field(2, gt=0, le=64)
    memory: Size = Field(1024 * MIB, gt=0)
    cpu_time: Duration = Field(5.0, gt=0)
    wall_time: Duration = Field(60.0, gt=0)
    """More than ``cpu_time``, so that a busy machine alone fails no document."""


class TempSettings(Section):
    """Local files: private, owned, within a quota."""

    dir: Path | None = None
    """None: a directory of ours below the system's one."""
    quota: Size = Field(4 * GIB, gt=0)
    min_free: Size = Field(512 * MIB, ge=0)
    lifetime: Duration = Field(6 * 3600.0, gt=0)
    """After which a forgotten file may be removed even while its worker lives."""


class WorkerSettings(Section):
    """How much is done at the same time."""

    documents: int = Field(64, gt=0)
    """Documents that hold local files at the same time."""
    jobs_per_provider: int = Field(200, gt=0)
    """Jobs at one service at the same time, where ``jobs`` does not say otherwise."""
    jobs: dict[str, int] = Field(default_factory=dict)
    """Per provider name."""
    store_threads: int = Field(16, gt=0)
    provider_threads: int = Field(16, gt=0)
    download_threads: int = Field(8, gt=0)
    grace: Duration = Field(25.0, gt=0)
    """From SIGTERM to the end of the process."""
    loop_stuck_after: Duration = Field(15.0, gt=0)
    partition_stuck_after: Duration = Field(60.0, gt=0)
    storm_threshold: int = Field(10, gt=1)
    """Bundles refused in a row, with no success between, before dead letters are held back."""


class HttpSettings(Section):
    """Where metrics, health and status are served."""

    host: str = "127.0.0.1"
    port: int = Field(9108, ge=0, le=65535)


class LogSettings(Section):
    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "json", "human"] = "auto"
    """``auto``: human on a terminal, JSON elsewhere."""


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


def load(
    *,
    config: Path | None = None,
    environment: Mapping[str, str] | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Settings:
    """The settings that hold.

    ``overrides`` are command-line values by dotted path (``kafka.bootstrap_servers``); None values
    are ignored.

    :raises SettingsError: see the class.
    """
    environment = os.environ if environment is None else environment
    if config is None and (named := environment.get(f"{PREFIX}CONFIG")):
        config = Path(named)
    values = _from_file(config) if config else {}
    for name, text in sorted(environment.items()):
        if name.startswith(PREFIX) and name != f"{PREFIX}CONFIG":
            path = name.removeprefix(PREFIX).lower().split("__")
            _put(values, path, text, f"environment variable {name}")
    for dotted, value in (overrides or {}).items():
        if value is not None:
            _put(values, dotted.split("."), value, f"option {dotted}")
    policies = values.setdefault("policies", {})
    policies.setdefault("default", {})
    for name, policy in policies.items():
        if isinstance(policy, dict):
            policy.setdefault("name", name)
    for name, provider in values.get("providers", {}).items():
        if isinstance(provider, dict) and name in set(Kind):
            provider.setdefault("kind", name)
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        raise SettingsError(_explain(error)) from None


def read_secret(value: SecretStr | None, file: Path | None, name: str) -> str | None:
    """A secret given directly or by file; its name goes into the error, never its value.

    :raises SettingsError: the file cannot be read.
    """
    if value is not None:
        return value.get_secret_value()
    if file is None:
        return None
    try:
        return file.read_text().strip()
    except OSError as error:
        raise SettingsError(f"{name}_file: cannot read the file ({error.strerror})") from None


def _from_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise SettingsError(f"config file {path}: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"config file {path}: not TOML: {error}") from None


def _put(values: dict[str, Any], path: list[str], value: Any, what: str) -> None:
    for part in path[:-1]:
        inner = values.setdefault(part, {})
        if not isinstance(inner, dict):
            raise SettingsError(f"{what}: {part} is a value, not a section")
        values = inner
    values[path[-1]] = _split_list(path[-1], value)


LISTS = frozenset({"readable_buckets", "allowed_download_hosts", "allowed_image_types"})


def _split_list(name: str, value: Any) -> Any:
    """Lists in the environment are written with commas."""
    if name in LISTS and isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


def _explain(error: ValidationError) -> str:
    lines = []
    for problem in error.errors(include_url=False, include_context=False, include_input=False):
        path = [str(part) for part in problem["loc"]]
        name = ".".join(path)
        if problem["type"] == "extra_forbidden":
            near = difflib.get_close_matches(name, known_names(), n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            lines.append(f"{name}: no such setting{hint}")
        else:
            message = problem["msg"].removeprefix("Value error, ")
            lines.append(f"{name}: {message[:1].lower()}{message[1:]}")
    variable = lines[0].split(":")[0].upper().replace(".", "__")
    return "\n".join(lines) + f"\n(in the environment: {PREFIX}{variable})"


def known_names() -> list[str]:
    """Every setting by its dotted path; of providers and policies the paths below a name ``*``."""
    return list(_names(Settings, ""))


def _names(model: type[BaseModel], prefix: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from _names(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"
