"""What the engine is asked for, what it answers, and how it refuses."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

SoftMasks = Literal["composite", "separate", "ignore"]


@dataclass(frozen=True)
class ExtractOptions:
    """Limits and choices of one extraction.

    The limits count what is written for this document. `max_pixels_per_image` is checked before
    anything is decoded; decoding needs up to about eight bytes of memory per pixel, so size it to
    the memory of the process. An image over it is a problem of that image alone, every other
    limit refuses the document.

    `soft_masks`: what becomes of an image with a soft mask, a stencil mask, a colour key, or a JPEG
    2000 file whose alpha channel the document wants used (/SMaskInData).
    "composite" (the default) gives a PNG whose colours are the image's own and whose alpha channel
    is the mask, which is what a viewer paints and loses nothing; "separate" gives the image without
    its mask and the mask as a gray image right after it; "ignore" gives the image alone.

    `repeat_drawings`: count an image once for every time the page draws it, instead of once.
    `page_range`: first and last page to extract, 1-based and inclusive.
    """

    max_pages: int = 5_000
    max_images: int = 20_000
    max_pixels_per_image: int = 150_000_000  # an A0 plan at 300 dpi, an A3 page at 850 dpi
    max_total_bytes: int = 4 * 1024**3
    password: str | None = None
    soft_masks: SoftMasks = "composite"
    repeat_drawings: bool = False
    page_range: tuple[int, int] | None = None


@dataclass(frozen=True)
class ExtractedImage:
    """One image that a page draws.

    `page` and `index` are 1-based; `index` is the place of its first drawing on the page. An image
    that several pages (or, with `repeat_drawings`, several drawings) share has one entry for each
    and all of them name the same `file`. `bytes` is the size of that file. `is_mask` marks a mask
    given as an image of its own (`soft_masks="separate"`).
    """

    page: int
    index: int
    file: Path
    media_type: str
    width: int
    height: int
    sha256: str
    bytes: int
    is_mask: bool = False


@dataclass(frozen=True)
class Extraction:
    """The images of a document, by page and then by order of first drawing.

    `pages` counts the pages of the whole document, whatever the page range.

    `problems` has one entry for each image or page that could not be read: a `ProblemCode`, then
    its place, as in `undecodable page=3 index=2`. The index of a failing image stays empty in
    `images`, so what is missing can be told from what never was.
    """

    pages: int
    images: tuple[ExtractedImage, ...]
    problems: tuple[str, ...]


ProblemCode = Literal[
    "bad_dimensions",  # no usable width and height
    "too_many_pixels",  # over max_pixels_per_image
    "undecodable",  # no decoder could read the samples
    "out_of_memory",  # decoding needs more memory than this process may have
    "unreadable_content",  # a page's content cannot be parsed
]


class ExtractionError(Exception):
    """The document as a whole cannot be extracted. The text never holds any of its content."""


class EncryptedDocument(ExtractionError):
    """The document needs a password that was not given, or has an unsupported encryption."""


class UnreadableDocument(ExtractionError):
    """The file is no PDF, is damaged beyond repair or has no pages."""


class LimitExceeded(ExtractionError):
    """The document goes beyond a limit: "pages", "images", "bytes" or "memory"."""

    def __init__(self, which: Literal["pages", "images", "bytes", "memory"]) -> None:
        super().__init__(f"the document exceeds the limit on {which}")
        self.which = which


class BadImage(Exception):
    """One image cannot be given; the others of the document can."""

    def __init__(self, code: ProblemCode) -> None:
        super().__init__(code)
        self.code: ProblemCode = code
