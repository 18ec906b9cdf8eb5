"""How an extraction service is configured; each field is also an operator's setting."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from consumers.urls import Url
from schemas import units
from schemas.units import Bytes

MIB = 1024 * 1024
Seconds = Annotated[units.Seconds, Field(gt=0, le=3600)]
PositiveSeconds = Annotated[units.Seconds, Field(gt=0)]
PositiveBytes = Annotated[Bytes, Field(ge=1)]


class Kind(StrEnum):
    INFRAI = "infrai"
    SELFHOSTED = "selfhosted"
    AZURE = "azure"
    GOOGLE = "google"
    AWS_LAMBDA = "aws-lambda"
    TEXTRACT = "textract"
    DOCLING = "docling"


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class InfraiSettings(_Settings):
    """What only the Infrai adapter reads."""

    submit_format: Literal["multipart", "json"] = "multipart"
    """How documents are sent."""
    vendor: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_.-]{1,64}$")
    """Pins the vendor that the service would otherwise choose by itself."""
    capability: str = "pdf.extract_images"
    """Its name in the discovery document."""
    forbidden_regions: frozenset[str] = frozenset()
    """Data regions in which this service must not process."""


class SelfHostedSettings(_Settings):
    """What only the adapter of the self-hosted service reads."""

    long_poll_seconds: units.Seconds = Field(default=0.0, ge=0, le=60)
    """0: off. A poll that waits keeps a thread waiting."""
    results_kept_seconds: PositiveSeconds | None = 24 * 3600.0
    """How long the service keeps a finished job."""
    max_pages_per_job: int | None = Field(default=None, ge=1)
    """What the service takes; beyond it a document is cut into jobs."""
    max_bytes_per_job: PositiveBytes | None = None
    """What the service takes; beyond it a document is cut into jobs."""


class AzureSettings(_Settings):
    """What only the adapter of Azure AI Document Intelligence reads."""

    model: str = Field(default="prebuilt-layout", pattern=r"^[A-Za-z0-9._~-]{2,64}$")
    """The model that analyses."""
    api_version: str = Field(default="2024-11-30", pattern=r"^[0-9a-z-]{10,30}$")
    """The service's API version."""
    auth: Literal["key", "bearer"] = "key"
    """`key`: a resource key; `bearer`: a Microsoft Entra access token (use token_file)."""
    max_result_bytes: Bytes = Field(default=128 * MIB, ge=1024)
    """The result of a long document lists every word."""


class GoogleSettings(_Settings):
    """What only the adapter of Google Document AI reads. The first three have no default."""

    project: str = Field(default="", pattern=r"^[a-z0-9-]{0,63}$")
    """The Google Cloud project. Must be set."""
    processor: str = Field(default="", pattern=r"^[A-Za-z0-9]{0,64}$")
    """The id of a layout parser processor."""
    bucket: str = Field(default="", pattern=r"^[a-z0-9._-]{0,222}$")
    """Where documents and results pass through. Must be set. Those of failed jobs stay:
    give it a rule that deletes what is some days old."""
    location: str = Field(default="eu", pattern=r"^[a-z0-9-]{1,30}$")
    """Where the processor is."""
    prefix: str = Field(default="bundle-extraction/", pattern=r"^([A-Za-z0-9_.-]+/)*$")
    """What keys in that bucket start with."""
    storage_url: Url | None = None
    """Another address of the storage service, for a private endpoint."""
    max_result_bytes: Bytes = Field(default=128 * MIB, ge=1024)
    """One output shard, images included."""


class AwsSettings(_Settings):
    """What only the two AWS adapters read. Credentials come from the environment as AWS's own tools
    take them (variables, profile, web identity, instance role)."""

    region: str | None = Field(default=None, pattern=r"^[a-z0-9-]{1,40}$")
    """The AWS region; else as AWS's own tools find it."""
    bucket: str = Field(default="", pattern=r"^[a-z0-9.-]{0,63}$")
    """Where documents and results pass through. Must be set. Those of failed jobs stay:
    give it a rule that deletes what is some days old."""
    prefix: str = Field(default="bundle-extraction/", pattern=r"^([A-Za-z0-9_.-]+/)*$")
    """What keys in that bucket start with."""
    function: str = Field(default="bundle-extract", pattern=r"^[A-Za-z0-9_:$-]{1,170}$")
    """Name or ARN of the function."""
    s3_url: Url | None = None
    """Another address of S3, for a private endpoint."""
    lambda_url: Url | None = None
    """Another address of Lambda, for a private endpoint."""
    textract_url: Url | None = None
    """Another address of Textract, for a private endpoint."""
    render_dpi: int = Field(default=200, ge=36, le=600)
    """Textract tells boxes only: they are cut from the page rendered with this resolution."""


class DoclingSettings(_Settings):
    """What only the adapter of docling-serve reads."""

    ocr: bool = False
    """Have the service recognise text too, which is slower."""
    long_poll_seconds: units.Seconds = Field(default=0.0, ge=0, le=60)
    """0: off. A poll that waits keeps a thread waiting."""
    results_kept_seconds: PositiveSeconds = 300.0
    """After the result was first fetched (DOCLING_SERVE_RESULT_REMOVAL_DELAY of the service)."""
    max_result_bytes: Bytes = Field(default=128 * MIB, ge=1024)
    """One result, images included."""


class ProviderSettings(_Settings):
    """One extraction service."""

    kind: Kind
    """Which adapter speaks to it; where the name in the settings is a kind, that one."""
    name: str | None = Field(default=None, pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")
    """In logs, metrics and manifests; the kind where not given."""
    base_url: Url | None = None
    """The service's address; only the public services have one by default."""
    token: SecretStr | None = None
    """The API key or bearer token."""
    token_file: Path | None = None
    """A file that holds it, read again when it changes."""
    allow_plain_http: bool = False
    """Send the credential over http to a host that is not this machine (a private network)."""
    ca_file: Path | None = None
    """PEM certificates to check the service against, in place of the system's."""
    connect_timeout_seconds: Seconds = 5.0
    """For a connection to come about."""
    read_timeout_seconds: Seconds = 60.0
    """For each wait for bytes."""
    total_timeout_seconds: Seconds = 300.0
    """For one request and its whole answer."""
    max_json_bytes: Bytes = Field(default=8 * MIB, ge=1024, le=256 * MIB)
    """No answer may be longer."""
    connections: int = Field(default=32, ge=1, le=1024)
    """Connections that are kept open."""
    max_polls_per_second: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Polls that one worker sends at most; further ones wait their turn, which counts as poll lag
    once the job has finished. The service's quota belongs to all workers: divide it by the most
    that may run. Not set: what the service publishes (Azure: 25, half of its GET operations for
    polls), else no limit."""
    allowed_download_hosts: tuple[str, ...] = ()
    """Where images may be fetched from, beside the service's own address: names, `*.suffix`, or `*`
    for any public host."""
    allow_private_downloads: bool = False
    """Images may also be fetched from loopback and private addresses and over plain http."""
    infrai: InfraiSettings = InfraiSettings()
    selfhosted: SelfHostedSettings = SelfHostedSettings()
    azure: AzureSettings = AzureSettings()
    google: GoogleSettings = GoogleSettings()
    aws: AwsSettings = AwsSettings()
    docling: DoclingSettings = DoclingSettings()
