"""Cuts regions out of rendered pages, for services that tell where an image is and not what it is.

`cut_regions` renders with pdfium, which a hostile file can crash: run it in the sandbox, by giving
the adapter a callable that does.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

RENDER_DPI = 200
MAX_PAGE_PIXELS = 100_000_000
POINTS_PER_INCH = 72


@dataclass(frozen=True, slots=True, order=True)
class Region:
    """A box on a page; ``page`` is 1-based, the rest are fractions of the page's size as shown."""

    page: int
    top: float
    left: float
    height: float
    width: float


RegionCutter = Callable[[Path, Sequence[Region], int], list[bytes]]
"""(document, regions, dots per inch) -> one PNG for each region, in their order."""


def cut_regions(document: Path, regions: Sequence[Region], dpi: int = RENDER_DPI) -> list[bytes]:
    """One PNG for each region. Each page is rendered once.

    Raises:
        ValueError: a region is outside of the document, or a page is too large to render.
    """
    import pypdfium2

    cut: dict[Region, bytes] = {}
    pdf = pypdfium2.PdfDocument(document)
    try:
        for number in sorted({region.page for region in regions}):
            if not 1 <= number <= len(pdf):
                raise ValueError("a region is on a page that the document does not have")
            page = pdf[number - 1]
            scale = dpi / POINTS_PER_INCH
            width, height = page.get_size()
            if width * scale * height * scale > MAX_PAGE_PIXELS:
                raise ValueError("a page is too large to be rendered")
            picture = page.render(scale=scale).to_pil()
            for region in regions:
                if region.page == number:
                    cut[region] = _png(picture.crop(_box(region, picture.size)))
            page.close()
    finally:
        pdf.close()
    return [cut[region] for region in regions]


def _box(region: Region, size: tuple[int, int]) -> tuple[int, int, int, int]:
    width, height = size
    left = min(max(round(region.left * width), 0), width - 1)
    top = min(max(round(region.top * height), 0), height - 1)
    right = min(max(round((region.left + region.width) * width), left + 1), width)
    bottom = min(max(round((region.top + region.height) * height), top + 1), height)
    return left, top, right, bottom


def _png(picture: object) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, format="PNG")  # type: ignore[attr-defined]
    return buffer.getvalue()
