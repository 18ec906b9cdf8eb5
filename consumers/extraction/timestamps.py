"""RFC 3339 in UTC with milliseconds: how times are written in everything that leaves us."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache


def rfc3339(seconds: float) -> str:
    """``seconds`` since 1970 UTC as ``2026-01-31T12:00:00.000Z``."""
    whole, milliseconds = divmod(round(seconds * 1000), 1000)
    return f"{_second(whole)}.{milliseconds:03d}Z"


@lru_cache(maxsize=64)
def _second(seconds: int) -> str:
    """A document is a dozen times, most of them in the same few seconds."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def parse_rfc3339(text: str) -> float | None:
    """Seconds since 1970 UTC; None where ``text`` is no such time. Never raises."""
    try:
        moment = datetime.fromisoformat(text)
        return moment.timestamp() if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None
