"""Decodes an image with PDFium, which knows every filter and colour space.

The image is put alone into a file of one page, so that PDFium never sees the structure of the
document: hostile page trees, forms and object streams, at which it ends the process, stay out.
"""

from __future__ import annotations

import ctypes
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import pikepdf
import pypdfium2
import pypdfium2.raw as pdfium

from deploy.extractor.engine.facts import is_stencil_mask
from deploy.extractor.engine.model import BadImage
from deploy.extractor.engine.png import Samples

_NEEDED_KEYS = (
    "/Width",
    "/Height",
    "/BitsPerComponent",
    "/ColorSpace",
    "/ImageMask",
    "/Decode",
    "/DecodeParms",
    "/Filter",
)
_CHANNELS_OF_BGR = (2, 1, 0)


def render(owner: pikepdf.Pdf, image: pikepdf.Stream) -> Samples:
    """An image's pixels: (height, width) gray, or (height, width, channels) RGB or RGBA.

    Soft masks and stencil masks are not applied; a colour key gives the alpha channel. A stencil is
    0, black, where it paints. Raises BadImage "undecodable".
    """
    pixels = _bitmap(owner, image)
    # PDFium gives a stencil as a mask, which is 255 where it paints.
    return _inverted(pixels) if is_stencil_mask(image) else pixels


def render_bilevel(owner: pikepdf.Pdf, image: pikepdf.Stream, *, inverted: bool) -> Samples:
    """An image of one bit per pixel or a stencil: (height, width), 0 for samples of 0, 255 for 1.

    Palettes, colour keys and /Decode are not applied, since PDFium gives colours then; for the
    latter there is `inverted`.
    Raises BadImage "undecodable".
    """
    pixels = _bitmap(owner, image, as_samples=True)
    if pixels.ndim != 2:
        raise BadImage("undecodable")
    return _inverted(pixels) if inverted != is_stencil_mask(image) else pixels


def render_fax(owner: pikepdf.Pdf, image: pikepdf.Stream, *, inverted: bool) -> Samples:
    """A CCITT image as rows of packed samples: (height, bytes per row).

    The bits that fill the last byte of a row up are 0.
    Like `render_bilevel`, but PDFium does not make a byte of every bit, which takes it longer than
    the decoding: as the thumbnail of a page it gives an image as it is. JBIG2 it leaves empty.
    Raises BadImage "undecodable".
    """
    with _page_with(owner, image, as_samples=True) as page:
        raw = pdfium.FPDFPage_GetThumbnailAsBitmap(page.raw)
        if not raw:
            raise BadImage("undecodable")
        try:
            rows, width = _packed_rows(raw), pdfium.FPDFBitmap_GetWidth(raw)
        finally:
            pdfium.FPDFBitmap_Destroy(raw)
    if inverted != is_stencil_mask(image):
        _inverted(rows)
    rows[:, -1] &= 0xFF << -width % 8 & 0xFF
    return rows


def _packed_rows(bitmap: Any) -> Samples:
    """A copy of a bitmap of one bit per pixel."""
    if pdfium.FPDFBitmap_GetFormat(bitmap) != pdfium.FPDFBitmap_Unknown:
        raise BadImage("undecodable")  # a format with a name has at least a byte per pixel
    width, height = pdfium.FPDFBitmap_GetWidth(bitmap), pdfium.FPDFBitmap_GetHeight(bitmap)
    stride = pdfium.FPDFBitmap_GetStride(bitmap)
    content = ctypes.string_at(pdfium.FPDFBitmap_GetBuffer(bitmap), stride * height)
    rows = np.frombuffer(content, np.uint8).reshape(height, stride)
    return rows[:, : (width + 7) // 8].copy()


def _inverted(pixels: Samples) -> Samples:
    return np.invert(pixels, out=pixels)


class _Bitmap:
    """PDFium's own bitmap, which an array of it keeps: a copy would double the memory."""

    def __init__(self, raw: Any) -> None:
        self._bitmap = pypdfium2.PdfBitmap.from_raw(raw)  # frees the pixels when it goes
        self.__array_interface__ = self._bitmap.to_numpy().__array_interface__


def _bitmap(owner: pikepdf.Pdf, image: pikepdf.Stream, *, as_samples: bool = False) -> Samples:
    with _page_with(owner, image, as_samples=as_samples) as page:
        raw = pdfium.FPDFImageObj_GetBitmap(pdfium.FPDFPage_GetObject(page.raw, 0))
        if not raw:
            raise BadImage("undecodable")
        return _as_pixels(np.asarray(_Bitmap(raw)))


@contextmanager
def _page_with(
    owner: pikepdf.Pdf, image: pikepdf.Stream, *, as_samples: bool
) -> Iterator[pypdfium2.PdfPage]:
    try:
        document = pypdfium2.PdfDocument(_alone(owner, image, as_samples=as_samples))
    except pypdfium2.PdfiumError as error:
        raise BadImage("undecodable") from error
    try:
        yield document[0]
    except pypdfium2.PdfiumError as error:
        raise BadImage("undecodable") from error
    finally:
        document.close()


def _as_pixels(bitmap: Samples) -> Samples:
    """From PDFium's order of channels (blue first, an unused fourth) to gray, RGB or RGBA."""
    if bitmap.ndim == 2:
        return bitmap
    if bitmap.shape[2] == 1:
        return bitmap[:, :, 0]
    if bitmap.shape[2] == 3:
        return bitmap[:, :, ::-1]
    return bitmap[:, :, (*_CHANNELS_OF_BGR, 3)]


def _alone(owner: pikepdf.Pdf, image: pikepdf.Stream, *, as_samples: bool) -> bytes:
    """A file of one page that draws this image, has it as its thumbnail, and holds nothing else."""
    target = pikepdf.new()
    copy = _copied(owner, image, target, as_samples=as_samples)
    page = pikepdf.Dictionary(
        Type=pikepdf.Name.Page,
        MediaBox=[0, 0, 100, 100],
        Resources=pikepdf.Dictionary(XObject=pikepdf.Dictionary(Image=copy)),
        Contents=target.make_stream(b"100 0 0 100 0 0 cm /Image Do"),
        Thumb=copy,
    )
    target.pages.append(pikepdf.Page(page))
    buffer = io.BytesIO()
    target.save(
        buffer,
        compress_streams=False,
        stream_decode_level=pikepdf.StreamDecodeLevel.none,
        object_stream_mode=pikepdf.ObjectStreamMode.disable,
    )
    return buffer.getvalue()


def _copied(
    owner: pikepdf.Pdf, image: pikepdf.Stream, target: pikepdf.Pdf, *, as_samples: bool
) -> pikepdf.Stream:
    needed = {key: image[key] for key in _NEEDED_KEYS if key in image}
    if as_samples:
        needed.pop("/Decode", None)
        if "/ColorSpace" in needed:
            needed["/ColorSpace"] = pikepdf.Name.DeviceGray
    elif isinstance(image.get("/Mask"), pikepdf.Array):
        needed["/Mask"] = image["/Mask"]
    needed["/Subtype"] = pikepdf.Name.Image
    # Any: what is copied is a stream, and its entries are as odd as the document's.
    copy: Any = target.copy_foreign(owner.make_stream(b"", needed))
    copy.write(
        image.read_raw_bytes(), filter=copy.get("/Filter"), decode_parms=copy.get("/DecodeParms")
    )
    return cast(pikepdf.Stream, copy)
