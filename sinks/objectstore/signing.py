"""AWS Signature Version 4 of a request to S3, the headers' way. No I/O."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from urllib.parse import quote

ALGORITHM = "AWS4-HMAC-SHA256"
DATE_HEADER = "x-amz-date"
BODY_HEADER = "x-amz-content-sha256"


def query_string(parameters: Mapping[str, str]) -> str:
    """As it is signed and, so that both are the same, as it is sent: sorted, all but unreserved
    characters quoted."""
    return "&".join(
        f"{quote(name, safe='~')}={quote(value, safe='~')}"
        for name, value in sorted(parameters.items())
    )


def signature_headers(
    method: str,
    path: str,
    query: str,
    headers: dict[str, str],
    *,
    access_key: str,
    secret_key: str,
    region: str,
    content_sha256: str,
    date: datetime,
) -> dict[str, str]:
    """Headers to add to ``headers``, every one of which (Host is among them) is signed. ``path``
    is quoted already."""
    day, second = _texts(date.replace(microsecond=0))
    added = {BODY_HEADER: content_sha256, DATE_HEADER: second}
    signed = sorted([(name.lower(), _folded(value)) for name, value in (headers | added).items()])
    names = ";".join([name for name, _ in signed])
    lines = "".join([f"{name}:{value}\n" for name, value in signed])
    request = f"{method}\n{path}\n{query}\n{lines}\n{names}\n{content_sha256}"
    scope = f"{day}/{region}/s3/aws4_request"
    digest = hashlib.sha256(request.encode()).hexdigest()
    text = f"{ALGORITHM}\n{added[DATE_HEADER]}\n{scope}\n{digest}"
    signature = _hmac(_signing_key(secret_key, day, region), text).hex()
    added["Authorization"] = (
        f"{ALGORITHM} Credential={access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return added


def _folded(value: str) -> str:
    return " ".join(value.split())


@lru_cache(maxsize=4)
def _texts(second: datetime) -> tuple[str, str]:
    """The day and the second as they are signed; a second sees hundreds of requests."""
    return second.strftime("%Y%m%d"), second.strftime("%Y%m%dT%H%M%SZ")


@lru_cache(maxsize=8)
def _signing_key(secret_key: str, day: str, region: str) -> bytes:
    key = f"AWS4{secret_key}".encode()
    for part in (day, region, "s3", "aws4_request"):
        key = _hmac(key, part)
    return key


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")
