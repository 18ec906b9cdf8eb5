"""How long a service asks us to wait, read from every form that services have been seen to use.

Pure; never raises. The result is in seconds, >= 0, not clamped to any deadline (the caller's job),
but capped at a year so that it can be added to any clock. Sources of the forms: RFC 9110 10.2.3
(seconds or HTTP date), and the `retry-after-ms` and `x-ms-retry-after-ms` headers of
Azure services.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LONGEST_SECONDS = 365 * 24 * 3600.0

_NUMBER = re.compile(r"[+-]?\d{1,400}(\.\d{0,400})?")
_MILLISECOND_HEADERS = ("retry-after-ms", "x-ms-retry-after-ms")
_LONGEST_VALUE_READ = 2_000


def from_headers(headers: Mapping[str, str], *, now: datetime | None = None) -> float | None:
    """Seconds to wait by an answer's headers (a case-insensitive mapping), or None if not said.

    The millisecond forms win over `Retry-After` because they are the more exact of the two where a
    service sends both.
    """
    for name in _MILLISECOND_HEADERS:
        milliseconds = _largest_number(headers.get(name))
        if milliseconds is not None:
            return _bounded(milliseconds / 1000)
    value = headers.get("retry-after")
    return None if value is None else parse(value, now=now)


def parse(value: str, *, now: datetime | None = None) -> float | None:
    """Seconds to wait by one `Retry-After` value: a number, a date, or a list of numbers (which is
    what a proxy makes of several headers; the longest wait is taken). Past dates and negative
    numbers are 0; anything else is None."""
    number = _largest_number(value)
    if number is not None:
        return _bounded(number)
    moment = _moment(value)
    if moment is None:
        return None
    return _bounded((moment - (now or datetime.now(UTC))).total_seconds())


def _largest_number(value: str | None) -> float | None:
    if value is None or len(value) > _LONGEST_VALUE_READ:
        return None
    parts = [part.strip() for part in value.split(",")]
    numbers = [float(part) for part in parts if _NUMBER.fullmatch(part)]
    return max(numbers, default=None)


def _moment(value: str) -> datetime | None:
    if len(value) > _LONGEST_VALUE_READ:
        return None
    for read in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            moment = read(value.strip())
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return None


def _bounded(seconds: float) -> float:
    return min(max(seconds, 0.0), LONGEST_SECONDS)
