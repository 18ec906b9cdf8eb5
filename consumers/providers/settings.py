"""How an extraction service is configured; each field is also an operator's setting."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr

Seconds = Annotated[float, Field(gt=0, le=3600)]


class Kind(StrEnum):
    INFRAI = "infrai"
    SELFHOSTED = "selfhosted"


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
    max_json_bytes: int = Field(default=8 * 1024 * 1024, ge=1024, le=256 * 1024 * 1024)
    connections: int = Field(default=32, ge=1, le=1024)
    allowed_download_hosts: tuple[str, ...] = ()
    allow_private_downloads: bool = False
    infrai: InfraiSettings = InfraiSettings()
    selfhosted: SelfHostedSettings = SelfHostedSettings()
