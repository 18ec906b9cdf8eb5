"""Builds documents of one image or drawing and reads the engine's answers, for the tests here."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pikepdf
from PIL import Image

from deploy.extractor.engine import Extraction, ExtractOptions, extract
from tests import pdfs

Name = pikepdf.Name
DRAW_IMAGE = b"q 100 0 0 100 0 0 cm /Im Do Q"


def run(document: bytes, folder: Path, **options: Any) -> Extraction:
    """The engine on a document."""
    path = folder / "document.pdf"
    path.write_bytes(document)
    out_dir = folder / "images"
    out_dir.mkdir(exist_ok=True)
    return extract(path, out_dir, ExtractOptions(**options))


def document_of(
    data: bytes, make: Callable[[pikepdf.Pdf], dict[str, Any]] | None = None, **entries: Any
) -> bytes:
    """One page that draws one image: a stream of `data` with these entries.

    `make` adds entries that are objects of the document.
    """
    pdf = pikepdf.new()
    more = make(pdf) if make else {}
    image = pdf.make_stream(data, Type=Name.XObject, Subtype=Name.Image, **entries, **more)
    pdfs.add_page(pdf, DRAW_IMAGE, {"/Im": image})
    return pdfs.saved(pdf)


def picture(extraction: Extraction, number: int = 0) -> Image.Image:
    """The file of an image, decoded."""
    image = Image.open(extraction.images[number].file)
    image.load()
    return image


def pixels(extraction: Extraction, number: int = 0) -> npt.NDArray[np.uint8]:
    """The samples of an image as 8-bit gray, RGB, or with alpha."""
    image = picture(extraction, number)
    if image.mode in ("1", "P"):
        image = image.convert("L" if image.mode == "1" else "RGB")
    return np.asarray(image)


def jpeg_of(image: Image.Image, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=95, **options)
    return buffer.getvalue()


def group4_of(image: Image.Image) -> bytes:
    """The CCITT Group 4 data of a black and white image, taken out of a TIFF file."""
    buffer = io.BytesIO()
    # Pillow codes ones, which are white to it, as the black runs of a fax.
    inverted = image.point(lambda level: 255 - level)
    inverted.save(buffer, "TIFF", compression="group4", strip_size=1 << 30)
    with Image.open(buffer) as tiff:
        (start,) = tiff.tag_v2[273]  # type: ignore[attr-defined]
        (size,) = tiff.tag_v2[279]  # type: ignore[attr-defined]
    return buffer.getvalue()[start : start + size]


def gradient(width: int = 32, height: int = 16) -> Image.Image:
    """A colourful picture in which every corner differs."""
    x, y = np.meshgrid(np.arange(width), np.arange(height))
    channels = (x * 255 // width, y * 255 // height, (x + y) * 255 // (width + height))
    return Image.fromarray(np.stack(channels, axis=-1).astype(np.uint8))


def bars(width: int = 64, height: int = 40) -> Image.Image:
    """Black bars on white, not symmetrical, as a page of text is."""
    samples = np.full((height, width), 255, np.uint8)
    samples[5:9, 3 : width // 2] = 0
    samples[20:30, 10 : width - 2] = 0
    return Image.fromarray(samples).convert("1", dither=Image.Dither.NONE)
