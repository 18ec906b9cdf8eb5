"""Durations and sizes as people write them: ``300s``, ``5m``, ``200MiB``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer

_DURATIONS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZES = {
    "B": 1,
    "KB": 1000,
    "MB": 1000**2,
    "GB": 1000**3,
    "KiB": 1024,
    "MiB": 1024**2,
    "GiB": 1024**3,
    "TiB": 1024**4,
}
_QUANTITY = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*", re.ASCII)
_NUMBER = re.compile(r"\s*[+-]?\d+(?:\.\d+)?\s*", re.ASCII)


def parse_duration(value: Any) -> Any:
    """Seconds of ``250ms``, ``30s``, ``5m``, ``2h``, ``7d``.

    :raises ValueError: no number, no unit, or a unit that is none of these.
    """
    return _parse(value, _DURATIONS, "a duration with its unit, such as 250ms, 30s, 5m, 2h or 7d")


def parse_size(value: Any) -> Any:
    """Bytes of ``512KiB``, ``200MiB``, ``2GiB`` (or KB, MB, GB; B).

    :raises ValueError: as `parse_duration`.
    """
    size = _parse(value, _SIZES, "a size with its unit, such as 512KiB, 200MiB or 2GiB")
    return int(size)


def _parse(value: Any, units: Mapping[str, float], expected: str) -> float:
    # A bare number would be read as somebody else's unit sooner or later.
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[2] not in units:
        raise ValueError(f"expected {expected}")
    return float(match[1]) * units[match[2]]


def seconds(value: Any) -> Any:
    """For a setting whose name ends in its unit: a number is that many seconds, else as
    `parse_duration`."""
    return value if _is_number(value) else parse_duration(value)


def days(value: Any) -> Any:
    """As `seconds`, in days."""
    return value if _is_number(value) else parse_duration(value) / _DURATIONS["d"]


def size_bytes(value: Any) -> Any:
    """As `seconds`, in bytes."""
    return value if _is_number(value) else parse_size(value)


def _is_number(value: Any) -> bool:
    return not isinstance(value, str) or _NUMBER.fullmatch(value) is not None


def format_duration(seconds: float) -> str:
    for unit in ("d", "h", "m"):
        if seconds >= _DURATIONS[unit] and (seconds / _DURATIONS[unit]).is_integer():
            return f"{int(seconds / _DURATIONS[unit])}{unit}"
    if seconds >= 1 or seconds == 0:
        return f"{_plain(seconds)}s"
    return f"{_plain(seconds * 1000)}ms"


def _plain(number: float) -> str:
    """Without an exponent, which would not be read back."""
    return f"{number:.6f}".rstrip("0").rstrip(".")


def format_size(size: int) -> str:
    for unit in ("GiB", "MiB", "KiB"):
        if size and size % _SIZES[unit] == 0:
            return f"{size // _SIZES[unit]}{unit}"
    return f"{size}B"


Duration = Annotated[
    float, BeforeValidator(parse_duration), PlainSerializer(format_duration, when_used="json")
]
"""Seconds; written with a unit, always."""
Size = Annotated[int, BeforeValidator(parse_size), PlainSerializer(format_size, when_used="json")]
"""Bytes; written with a unit, always."""

Seconds = Annotated[float, BeforeValidator(seconds)]
"""For names that end in ``_s`` or ``_seconds``: a number, or written with a unit."""
Days = Annotated[float, BeforeValidator(days)]
"""For names that end in ``_days``."""
Bytes = Annotated[int, BeforeValidator(size_bytes)]
"""For names that contain ``bytes``."""
