"""Turns what a sandbox process sent into values; anything unexpected is a crash of that process.

A hostile document may have taken the process over. Then it can lie about its own document, as the
document itself could, but it cannot make the worker hold a wrong type, an unbounded text or a
number that is out of bounds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from consumers.extraction.documents.model import (
    MAX_DETAILS,
    Assembled,
    AssemblyLimits,
    DocumentRejected,
    ImageLimits,
    Inspection,
    InspectionLimits,
    RegionOutside,
    RejectedImage,
    VerifiedImage,
)

DOCUMENT_REASONS = frozenset(
    {
        "not_a_pdf",
        "foreign_container",
        "header_offset",
        "unreadable",
        "no_pages",
        "encrypted",
        "too_large",
        "too_many_pages",
        "page_range",
    }
)
IMAGE_REASONS = frozenset(
    {
        "image_not_an_image",
        "image_too_many_pixels",
        "image_too_large",
        "image_type_not_allowed",
    }
)

ENGINES = frozenset({"pypdf", "pikepdf"})

_SHA256 = re.compile(r"[0-9a-f]{64}")
_MEDIA_TYPE = re.compile(r"[a-zA-Z0-9.+-]{1,60}/[a-zA-Z0-9.+-]{1,60}")
_DETAIL_NAME = re.compile(r"[a-z_]{1,30}")
_MAX_NUMBER = 1 << 53


class InvalidAnswer(Exception):
    """The process sent something that it never sends when it works as written."""


def raise_if_rejected(answer: Mapping[str, Any]) -> None:
    reason = answer.get("rejected")
    if reason is None:
        return
    _member(reason, DOCUMENT_REASONS)
    detail = answer.get("detail")
    if not isinstance(detail, dict) or len(detail) > MAX_DETAILS:
        raise InvalidAnswer
    numbers = {
        _text(name, _DETAIL_NAME): _number(detail, name, minimum=-_MAX_NUMBER) for name in detail
    }
    raise DocumentRejected(str(reason), numbers)


def wrote_nothing_more(answer: Mapping[str, Any]) -> bool:
    """Whether the process says that its file takes no more bytes. Look whether that is so."""
    return "os_error" in answer


def inspection(
    answer: Mapping[str, Any], limits: InspectionLimits, sha256: str | None = None
) -> Inspection:
    """`sha256`: what the process was told."""
    value = _mapping(answer, "inspection")
    libmagic_type = value.get("libmagic_type")
    return Inspection(
        sha256=sha256 or _text(value.get("sha256"), _SHA256),
        bytes=_number(value, "bytes", maximum=limits.max_bytes),
        pages=_number(value, "pages", minimum=1, maximum=limits.max_pages),
        encrypted=_boolean(value, "encrypted"),
        header_offset=_number(value, "header_offset", maximum=1024),
        libmagic_type=_text(libmagic_type, _MEDIA_TYPE) if libmagic_type else "",
        libmagic_version=_number(value, "libmagic_version", maximum=100_000),
        engine=_member(value.get("engine"), ENGINES),
        repaired=_boolean(value, "repaired"),
        seen_differently=_boolean(value, "seen_differently"),
    )


def assembled(answer: Mapping[str, Any], parts: int, limits: AssemblyLimits) -> Assembled:
    value = _mapping(answer, "assembled")
    ranges = value.get("ranges")
    if not isinstance(ranges, list) or len(ranges) != parts:
        raise InvalidAnswer
    page_map: list[tuple[int, int]] = []
    for index, pair in enumerate(ranges):
        if not isinstance(pair, list) or len(pair) != 2:
            raise InvalidAnswer
        bounds = dict(zip(("first", "last"), pair, strict=True))
        first = _number(bounds, "first", minimum=1)
        last = _number(bounds, "last", minimum=first)
        if len(page_map) + last - first + 1 > limits.max_pages:
            raise InvalidAnswer
        page_map.extend((index, page) for page in range(first, last + 1))
    return Assembled(
        sha256=_text(value.get("sha256"), _SHA256),
        bytes=_number(value, "bytes", minimum=1, maximum=limits.max_bytes),
        pages=len(page_map),
        page_map=tuple(page_map),
    )


def images(
    answer: Mapping[str, Any], count: int, limits: ImageLimits
) -> list[VerifiedImage | RejectedImage]:
    values = answer.get("images")
    if not isinstance(values, list) or len(values) != count:
        raise InvalidAnswer
    return [_image(value, limits) for value in values]


def cut_sizes(answer: Mapping[str, Any], count: int, total: int) -> list[int]:
    """The sizes of `count` files that were written one after the other, `total` bytes.

    Raises RegionOutside.
    """
    if answer.get("region_outside") is True:
        raise RegionOutside
    values = answer.get("sizes")
    if not isinstance(values, list) or len(values) != count:
        raise InvalidAnswer
    sizes = [_number({"size": value}, "size", minimum=1) for value in values]
    if sum(sizes) != total:
        raise InvalidAnswer
    return sizes


def _image(value: object, limits: ImageLimits) -> VerifiedImage | RejectedImage:
    if not isinstance(value, dict):
        raise InvalidAnswer
    reason = value.get("reason")
    if reason is not None:
        return RejectedImage(_member(reason, IMAGE_REASONS))
    return VerifiedImage(
        media_type=_member(value.get("media_type"), limits.media_types),
        width=_number(value, "width", minimum=1, maximum=limits.max_pixels),
        height=_number(value, "height", minimum=1, maximum=limits.max_pixels),
        bytes=_number(value, "bytes", minimum=1, maximum=limits.max_bytes),
        sha256=_text(value.get("sha256"), _SHA256),
    )


def _mapping(answer: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = answer.get(key)
    if not isinstance(value, dict):
        raise InvalidAnswer
    return value


def _number(
    values: Mapping[str, Any], key: str, minimum: int = 0, maximum: int = _MAX_NUMBER
) -> int:
    value = values.get(key)
    if type(value) is not int or not minimum <= value <= maximum:
        raise InvalidAnswer
    return value


def _boolean(values: Mapping[str, Any], key: str) -> bool:
    value = values.get(key)
    if not isinstance(value, bool):
        raise InvalidAnswer
    return value


def _member(value: object, allowed: frozenset[str]) -> str:
    if not isinstance(value, str) or value not in allowed:
        raise InvalidAnswer
    return value


def _text(value: object, pattern: re.Pattern[str]) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise InvalidAnswer
    return value


def batches(sizes: Sequence[int], max_count: int, max_total: int) -> list[slice]:
    """Cut a sequence of sizes into runs of at most so many items and so large a total.

    An item that is larger than the total by itself gets a run of its own.
    """
    runs: list[slice] = []
    start, total = 0, 0
    for index, size in enumerate(sizes):
        if index > start and (index - start >= max_count or total + size > max_total):
            runs.append(slice(start, index))
            start, total = index, 0
        total += size
    if len(sizes) > start:
        runs.append(slice(start, len(sizes)))
    return runs
