"""Durations and sizes as people write them: ``300s``, ``5m``, ``200MiB``. Always with a unit."""

from __future__ import annotations

import re
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
_QUANTITY = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*")


def parse_duration(value: Any) -> Any:
    """Seconds of ``250ms``, ``30s``, ``5m``, ``2h``, ``7d``.

    :raises ValueError: no number, no unit, or a unit that is none of these.
    """
    return _parse(value, _DURATIONS, "a duration such as 250ms, 30s, 5m, 2h or 7d")


def parse_size(value: Any) -> Any:
    """Bytes of ``512KiB``, ``200MiB``, ``2GiB`` (or KB, MB, GB; B).

    :raises ValueError: as `parse_duration`.
    """
    bytes_ = _parse(value, _SIZES, "a size such as 512KiB, 200MiB or 2GiB")
    return int(bytes_) if isinstance(bytes_, float) else bytes_


def _parse(value: Any, units: dict[str, Any], expected: str) -> Any:
    if not isinstance(value, str):
        return value
    match = _QUANTITY.fullmatch(value)
    if match is None or match[2] not in units:
        raise ValueError(f"expected {expected}")
    return float(match[1]) * units[match[2]]


def format_duration(seconds: float) -> str:
    for unit in ("d", "h", "m"):
        if seconds >= _DURATIONS[unit] and (seconds / _DURATIONS[unit]).is_integer():
            return f"{int(seconds / _DURATIONS[unit])}{unit}"
    return f"{seconds:g}s" if seconds >= 1 or seconds == 0 else f"{seconds * 1000:g}ms"


def format_size(size: int) -> str:
    for unit in ("GiB", "MiB", "KiB"):
        if size and size % _SIZES[unit] == 0:
            return f"{size // _SIZES[unit]}{unit}"
    return f"{size}B"


Duration = Annotated[
    float, BeforeValidator(parse_duration), PlainSerializer(format_duration, when_used="json")
]
"""Seconds; written with a unit."""
Size = Annotated[int, BeforeValidator(parse_size), PlainSerializer(format_size, when_used="json")]
"""Bytes; written with a unit."""
