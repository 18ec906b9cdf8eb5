"""Compares pictures, and asks other engines where two differ."""

from __future__ import annotations

import io
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt
import pikepdf
import pypdfium2
import pypdfium2.raw as pdfium
from PIL import Image, ImageCms

LARGEST_DIFFERENCE = 5.0  # mean absolute difference of 8-bit samples

Picture = npt.NDArray[np.uint8]
Image.MAX_IMAGE_PIXELS = None  # the files to compare are the engines' own


def load(file: Path) -> Image.Image:
    """A picture as gray or RGB, in sRGB.

    Alpha is dropped, since the oracle writes masks on their own.
    """
    picture = Image.open(file)
    profile = picture.info.get("icc_profile")
    flat = flattened(picture)
    if not profile:
        return flat
    try:
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        srgb = ImageCms.createProfile("sRGB")
        return ImageCms.profileToProfile(flat, source, srgb, outputMode="RGB") or flat
    except (ImageCms.PyCMSError, ValueError):
        return flat


def flattened(picture: Image.Image) -> Image.Image:
    if picture.mode in ("1", "L", "LA") or picture.mode.startswith("I"):
        if picture.mode.startswith("I"):
            deep = np.asarray(picture).astype(np.uint32)
            return Image.fromarray((deep >> 8).astype(np.uint8))
        return picture.convert("L")
    return picture.convert("RGB")


def difference(one: Image.Image, other: Image.Image) -> float:
    """Mean absolute difference of samples, after scaling `one` to the size of `other`."""
    if one.size != other.size:
        one = one.resize(other.size, Image.Resampling.BOX)
    if one.mode != other.mode:
        one, other = one.convert("RGB"), other.convert("RGB")
    first, second = np.asarray(one), np.asarray(other)
    total, rows = 0.0, max(1, (1 << 22) // max(1, first.shape[1]))
    for top in range(0, first.shape[0], rows):
        part = first[top : top + rows].astype(np.int16) - second[top : top + rows]
        total += float(np.abs(part).sum())
    return total / first.size


def by_pikepdf(path: Path, password: str | None, object_id: str) -> Image.Image | None:
    """The image object as pikepdf and Pillow read it."""
    if not object_id:
        return None
    number, generation = (int(part) for part in object_id.split())
    try:
        with pikepdf.open(path, password=password or "") as pdf:
            stream = cast(pikepdf.Stream, pdf.get_object(number, generation))
            return flattened(pikepdf.PdfImage(stream).as_pil_image())
    except Exception:
        return None


def has_inverting_decode(path: Path, password: str | None, object_id: str) -> bool:
    """Whether the dictionary of this image says /Decode [1 0]."""
    number, generation = (int(part) for part in object_id.split())
    try:
        with pikepdf.open(path, password=password or "") as pdf:
            decode = pdf.get_object(number, generation).get("/Decode")
            return isinstance(decode, pikepdf.Array) and float(decode[0]) == 1.0
    except Exception:
        return False


def by_pdfium(
    path: Path, password: str | None, page_number: int, size: tuple[int, int]
) -> list[Image.Image]:
    """The images of this size that PDFium finds on the page, reading the document by itself."""
    pictures: list[Image.Image] = []
    try:
        document = pypdfium2.PdfDocument(path, password=password)
        page = document[page_number - 1]
        for found in page.get_objects([pdfium.FPDF_PAGEOBJ_IMAGE], max_depth=15):
            if tuple(found.get_px_size()) == size and len(pictures) < 20:
                pictures.append(flattened(found.get_bitmap().to_pil()))
    except Exception:
        return pictures
    return pictures
