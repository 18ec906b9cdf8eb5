"""How an extraction service is configured; each field is also an operator's setting."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr

MIB = 1024 * 1024
Seconds = Annotated[float, Field(gt=0, le=3600)]


class Kind(StrEnum):
    INFRAI = "infrai"
    SELFHOSTED = "selfhosted"
    AZURE = "azure"
    GOOGLE = "google"
    AWS_LAMBDA = "aws-lambda"
    TEXTRACT = "textract"
    DOCLING = "docling"


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class InfraiSettings(_Settings):
    """What only the Infrai adapter reads."""

    submit_format: Literal["multipart", "json"] = "multipart"
    vendor: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_.-]{1,64}$")
    """Pins the vendor that the service would otherwise choose by itself."""
    capability: str = "pdf.extract_images"
    """Its name in the discovery document."""
    forbidden_regions: frozenset[str] = frozenset()


class SelfHostedSettings(_Settings):
    """What only the adapter of the self-hosted service reads."""

    long_poll_seconds: float = Field(default=0.0, ge=0, le=60)
    """0: off. A poll that waits keeps a thread waiting."""
    results_kept_seconds: float | None = Field(default=24 * 3600.0, gt=0)
    max_pages_per_job: int | None = Field(default=None, ge=1)
    max_bytes_per_job: int | None = Field(default=None, ge=1)


class AzureSettings(_Settings):
    """What only the adapter of Azure AI Document Intelligence reads."""

    model: str = Field(default="prebuilt-layout", pattern=r"^[A-Za-z0-9._~-]{2,64}$")
    api_version: str = Field(default="2024-11-30", pattern=r"^[0-9a-z-]{10,30}$")
    auth: Literal["key", "bearer"] = "key"
    """`key`: a resource key; `bearer`: a Microsoft Entra access token (use token_file)."""
    max_result_bytes: int = Field(default=128 * MIB, ge=1024)
    """The result of a long document lists every word."""


class GoogleSettings(_Settings):
    """What only the adapter of Google Document AI reads. The first three have no default."""

    project: str = Field(default="", pattern=r"^[a-z0-9-]{0,63}$")
    processor: str = Field(default="", pattern=r"^[A-Za-z0-9]{0,64}$")
    """The id of a layout parser processor."""
    bucket: str = Field(default="", pattern=r"^[a-z0-9._-]{0,222}$")
    location: str = Field(default="eu", pattern=r"^[a-z0-9-]{1,30}$")
    prefix: str = Field(default="bundle-extraction/", pattern=r"^([A-Za-z0-9_.-]+/)*$")
    storage_url: str | None = None
    max_result_bytes: int = Field(default=128 * MIB, ge=1024)
    """One output shard, images included."""


class AwsSettings(_Settings):
    """What only the two AWS adapters read. Credentials come from the environment as AWS's own tools
    take them (variables, profile, web identity, instance role)."""

    region: str | None = Field(default=None, pattern=r"^[a-z0-9-]{1,40}$")
    bucket: str = Field(default="", pattern=r"^[a-z0-9.-]{0,63}$")
    prefix: str = Field(default="bundle-extraction/", pattern=r"^([A-Za-z0-9_.-]+/)*$")
    function: str = Field(default="bundle-extract", pattern=r"^[A-Za-z0-9_:$-]{1,170}$")
    s3_url: str | None = None
    lambda_url: str | None = None
    textract_url: str | None = None
    render_dpi: int = Field(default=200, ge=36, le=600)
    """Textract tells boxes only: they are cut from the page rendered with this resolution."""


class DoclingSettings(_Settings):
    """What only the adapter of docling-serve reads."""

    ocr: bool = False
    long_poll_seconds: float = Field(default=0.0, ge=0, le=60)
    results_kept_seconds: float = Field(default=300.0, gt=0)
    """After the result was first fetched (DOCLING_SERVE_RESULT_REMOVAL_DELAY of the service)."""
    max_result_bytes: int = Field(default=128 * MIB, ge=1024)
    """One result, images included."""


class ProviderSettings(_Settings):
    """One extraction service.

    ``allowed_download_hosts``: where images may be fetched from, beside the service's own address:
    names, `*.suffix`, or `*` for any public host. ``allow_private_downloads``: also from loopback
    and private addresses and over plain http.
    """

    kind: Kind
    name: str | None = Field(default=None, pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")
    """In logs, metrics and manifests; the kind where not given."""
    base_url: str | None = None
    token: SecretStr | None = None
    token_file: Path | None = None
    allow_plain_http: bool = False
    """Send the credential over http to a host that is not this machine (a private network)."""
    ca_file: Path | None = None
    connect_timeout_seconds: Seconds = 5.0
    read_timeout_seconds: Seconds = 60.0
    total_timeout_seconds: Seconds = 300.0
    max_json_bytes: int = Field(default=8 * MIB, ge=1024, le=256 * MIB)
    connections: int = Field(default=32, ge=1, le=1024)
    allowed_download_hosts: tuple[str, ...] = ()
    allow_private_downloads: bool = False
    infrai: InfraiSettings = InfraiSettings()
    selfhosted: SelfHostedSettings = SelfHostedSettings()
    azure: AzureSettings = AzureSettings()
    google: GoogleSettings = GoogleSettings()
    aws: AwsSettings = AwsSettings()
    docling: DoclingSettings = DoclingSettings()
