"""How to reach and use one S3 store."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import SplitResult, urlsplit

_REGION = re.compile(r"[a-z0-9][a-z0-9-]{0,62}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class S3Settings:
    """Connection settings. Secrets never show in `repr`.

    Times are in seconds. `read_timeout` bounds each wait for bytes, `transfer_timeout` the whole
    body of one answer, so that a store that trickles bytes cannot hold a thread for ever.
    `max_connections` should be the number of threads that use the store: a connection more is
    opened and thrown away, never waited for.
    `write_headers` go with every write (`x-amz-server-side-encryption: aws:kms`, ...).
    `addressing`: where the bucket's name goes, `path` (/bucket/key) or `virtual` (bucket.host).

    Raises ValueError for an endpoint or region that cannot work, naming the field and the fix.
    """

    endpoint_url: str
    access_key: str
    secret_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)
    region: str = "us-east-1"
    addressing: Literal["path", "virtual"] = "path"
    ca_file: Path | None = None
    connect_timeout: float = 5.0
    read_timeout: float = 30.0
    transfer_timeout: float = 600.0
    max_connections: int = 32
    write_headers: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        url = urlsplit(self.endpoint_url)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise ValueError("endpoint_url must be http://host[:port] or https://host[:port]")
        if url.username or url.password:
            raise ValueError("endpoint_url must not carry credentials; use access_key, secret_key")
        if url.path not in ("", "/") or url.query or url.fragment:
            raise ValueError("endpoint_url must have no path or query: only scheme, host and port")
        if not self.access_key or not self.secret_key:
            raise ValueError("access_key and secret_key must both be set")
        if not _REGION.fullmatch(self.region):
            raise ValueError("region must be letters, digits and hyphens, such as us-east-1")
        if self.ca_file is not None and not self.ca_file.is_file():
            raise ValueError("ca_file must be a readable PEM file")

    @property
    def url(self) -> SplitResult:
        return urlsplit(self.endpoint_url)

    @property
    def secure(self) -> bool:
        return self.url.scheme == "https"
