"""What goes into and comes out of the work on documents and images: plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

PDF_MEDIA_TYPE = "application/pdf"

# How many numbers a rejection may carry, so that a hostile file cannot fill a header or a log line.
MAX_DETAILS = 8

MIB = 1024 * 1024


class DocumentRejected(Exception):
    """The document itself is the problem; trying again cannot help.

    `reason` is a code of `schemas.reasons.Reason`. `detail` holds numbers only (limits, sizes,
    page numbers, the 0-based index of a segment), never anything taken from the content.
    """

    def __init__(self, reason: str, detail: Mapping[str, int] | None = None) -> None:
        self.reason = reason
        self.detail: dict[str, int] = dict(list((detail or {}).items())[:MAX_DETAILS])
        super().__init__(" ".join([reason, *(f"{k}={v}" for k, v in self.detail.items())]))


@dataclass(frozen=True, slots=True)
class InspectionLimits:
    max_bytes: int = 512 * MIB
    max_pages: int = 10_000
    # Bytes before the header are common in health care (fax gateways, HTTP dumps, print streams)
    # and every engine reads past them; where they stand is recorded in `Inspection`.
    accept_header_offset: bool = True


@dataclass(frozen=True, slots=True)
class Inspection:
    """What is known of a PDF that was accepted."""

    sha256: str
    bytes: int
    pages: int
    encrypted: bool
    """Has an encryption dictionary; it was opened with the empty password or with the given one."""
    header_offset: int
    """Where `%PDF-` begins, 0 in a clean file."""
    libmagic_type: str
    """libmagic's opinion, recorded for audits; no verdict depends on it."""
    libmagic_version: int
    engine: str
    """The engine that counted the pages: "pypdf", or "pikepdf" where that found more."""
    repaired: bool
    """Whether an engine had to mend the file's structure to read it."""
    media_type: str = PDF_MEDIA_TYPE
    seen_differently: bool = False
    """Another engine sees fewer pages or none: whoever reads it with that one would lose some."""


@dataclass(frozen=True, slots=True)
class AssemblyPart:
    """Pages of one source PDF, 1-based and inclusive; None is the first or the last page."""

    path: Path
    first_page: int | None = None
    last_page: int | None = None
    password: str | None = field(default=None, repr=False)
    rebuild: bool = False
    """Take what the engine that sees most pages sees, even where nothing looks damaged."""


@dataclass(frozen=True, slots=True)
class AssemblyLimits:
    max_bytes: int = 512 * MIB
    """Of the PDF that is written."""
    max_pages: int = 10_000


@dataclass(frozen=True, slots=True)
class Assembled:
    sha256: str
    bytes: int
    pages: int
    page_map: tuple[tuple[int, int], ...]
    """For each page of the new PDF: the 0-based part it is from and its 1-based page there."""


@dataclass(frozen=True, slots=True, order=True)
class Region:
    """A box on a page; `page` is 1-based, the rest are fractions of the page's size as shown."""

    page: int
    top: float
    left: float
    height: float
    width: float


class RegionOutside(ValueError):
    """A region is on no page of the document, or its page is too large to render."""

    def __init__(self) -> None:
        super().__init__("a region is on no page of the document, or on one too large to render")


DEFAULT_IMAGE_TYPES = frozenset(
    {"image/png", "image/jpeg", "image/jp2", "image/tiff", "image/webp"}
)


@dataclass(frozen=True, slots=True)
class ImageLimits:
    max_bytes: int = 64 * MIB
    max_pixels: int = 120_000_000
    """Over all frames. An A4 page at 600 dpi has 35 million pixels, A3 at 800 dpi 117 million."""
    media_types: frozenset[str] = DEFAULT_IMAGE_TYPES


@dataclass(frozen=True, slots=True)
class VerifiedImage:
    media_type: str
    """From the content, whatever the service said."""
    width: int
    height: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class RejectedImage:
    reason: str
