"""URLs in settings."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator


def _without_credentials(url: str) -> str:
    parts = urlsplit(url)
    if parts.username or parts.password:
        raise ValueError("a URL must not carry credentials: give them by their own settings")
    return url


Url = Annotated[str, AfterValidator(_without_credentials)]
"""Settings are printed, so what is secret in them has a place of its own."""
