"""RFC 3339 in UTC with milliseconds: how times are written in everything that leaves us."""

from __future__ import annotations

from datetime import UTC, datetime


def rfc3339(seconds: float) -> str:
    """``seconds`` since 1970 UTC as ``2026-01-31T12:00:00.000Z``."""
    moment = datetime.fromtimestamp(round(seconds, 3), UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_rfc3339(text: str) -> float | None:
    """Seconds since 1970 UTC; None where ``text`` is no such time. Never raises."""
    try:
        moment = datetime.fromisoformat(text)
        return moment.timestamp() if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None
