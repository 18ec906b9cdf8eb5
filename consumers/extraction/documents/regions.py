"""Cuts regions out of rendered pages, for services that tell where an image is and not what it is.

Renders with pdfium, which aborts its process on some hostile files.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import BinaryIO

import pypdfium2
from PIL import Image

from consumers.extraction.documents.model import DocumentRejected, Region, RegionOutside
from consumers.extraction.documents.writing import MeasuringWriter

MAX_PAGE_PIXELS = 100_000_000
_POINTS_PER_INCH = 72


def cut_regions(
    file: BinaryIO, regions: Sequence[Region], dpi: int, destination: BinaryIO
) -> list[int]:
    """Write one PNG for each region to `destination`, one after the other; returns their sizes.

    `file` is an open PDF (seekable), `dpi` the dots per inch of the rendered pages. A page is
    rendered once for each run of regions that are on it.

    Raises RegionOutside where a region is on no page of the document or a page is too large to
    render, DocumentRejected with `unreadable` or `too_large`, and OSError where `destination` takes
    no more bytes.
    """
    file.seek(0)
    writer = MeasuringWriter(destination)
    try:
        sizes = list(_written(file, regions, dpi, writer))
        writer.finish()
        return sizes
    except OSError:
        writer.raise_if_stopped()
        raise
    except pypdfium2.PdfiumError as error:
        raise DocumentRejected("unreadable") from error


def _written(
    file: BinaryIO, regions: Sequence[Region], dpi: int, writer: MeasuringWriter
) -> Iterator[int]:
    with pypdfium2.PdfDocument(file) as pdf:
        for number, on_page in groupby(regions, key=lambda region: region.page):
            if not 1 <= number <= len(pdf):
                raise RegionOutside
            picture = _rendered(pdf[number - 1], dpi / _POINTS_PER_INCH)
            for region in on_page:
                png = io.BytesIO()
                picture.crop(_box(region, picture.size)).save(png, format="PNG")
                yield writer.write(png.getvalue())


def _rendered(page: pypdfium2.PdfPage, scale: float) -> Image.Image:
    width, height = page.get_size()
    if width * scale * height * scale > MAX_PAGE_PIXELS:
        raise RegionOutside
    picture: Image.Image = page.render(scale=scale).to_pil()
    page.close()
    return picture


def _box(region: Region, size: tuple[int, int]) -> tuple[int, int, int, int]:
    width, height = size
    left = min(max(round(region.left * width), 0), width - 1)
    top = min(max(round(region.top * height), 0), height - 1)
    right = min(max(round((region.left + region.width) * width), left + 1), width)
    bottom = min(max(round((region.top + region.height) * height), top + 1), height)
    return left, top, right, bottom
