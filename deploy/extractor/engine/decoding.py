"""Turns one image of a document into one file, by the cheapest way that is right.

In this order: the bytes of the stream where they are a JPEG or JPEG 2000 file that a viewer shows
as the page does; a PNG of the samples as they are packed in the stream; a PNG of the pixels as
PDFium decodes them; and, where PDFium gives up, as pikepdf and Pillow do.
"""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
import pikepdf
from PIL import Image

from deploy.extractor.engine import png
from deploy.extractor.engine.facts import ImageFacts, read_facts
from deploy.extractor.engine.jpeg import read_header
from deploy.extractor.engine.model import BadImage, SoftMasks
from deploy.extractor.engine.png import Samples
from deploy.extractor.engine.rendering import render
from deploy.extractor.engine.samples import PackedSamples, read_samples

_JP2_SIGNATURE = b"\0\0\0\x0cjP  "
_CODESTREAM_SIGNATURE = b"\xff\x4f\xff\x51"


@dataclass(frozen=True)
class EncodedImage:
    """An image file in memory."""

    data: bytes
    media_type: str
    width: int
    height: int
    is_mask: bool = False


class Decoder:
    """Encodes the images of one file as image files."""

    def __init__(self, pdf: pikepdf.Pdf, *, max_pixels: int, soft_masks: SoftMasks) -> None:
        self._pdf = pdf
        self._max_pixels = max_pixels
        self._soft_masks = soft_masks

    def files(self, image: pikepdf.Stream) -> list[EncodedImage]:
        """The image, and its mask after it where masks are wanted separately.

        Raises BadImage.
        """
        try:
            return self._files(image)
        except MemoryError as error:
            raise BadImage("out_of_memory") from error
        except BadImage:
            raise
        except Exception as error:  # whatever a decoder stumbles over is that image's problem
            raise BadImage("undecodable") from error

    def _files(self, image: pikepdf.Stream) -> list[EncodedImage]:
        facts = read_facts(image, max_pixels=self._max_pixels)
        mask = facts.soft_mask if facts.soft_mask is not None else facts.stencil_mask
        if self._soft_masks == "ignore" or (mask is None and not facts.has_colour_key):
            return [self._alone(image, facts)]
        if self._soft_masks == "separate":
            own = self._alone(image, facts)
            return [own] if mask is None else [own, self._mask_alone(mask)]
        if mask is None:
            return [_png_of_pixels(self._pixels(image, facts), facts)]
        alpha = self._alpha(mask)
        if alpha is None or alpha.min() == 255:
            return [self._alone(image, facts)]
        return [self._with_alpha(self._pixels(image, facts), alpha, mask)]

    def _alone(self, image: pikepdf.Stream, facts: ImageFacts) -> EncodedImage:
        if facts.filters[-1:] in (("/DCTDecode",), ("/JPXDecode",)):
            original = _original_bytes(self._file_in(image, facts), facts)
            if original is not None:
                return original
        samples = read_samples(image, facts)
        if samples is not None:
            return _png_of_samples(samples)
        return _png_of_pixels(_opaque(self._decoded(image, facts)), facts)

    def _mask_alone(self, mask: pikepdf.Stream) -> EncodedImage:
        found = self._alone(mask, read_facts(mask, max_pixels=self._max_pixels))
        return EncodedImage(found.data, found.media_type, found.width, found.height, is_mask=True)

    def _alpha(self, mask: pikepdf.Stream) -> Samples | None:
        """How opaque each pixel is; None where the mask cannot be read, which viewers ignore."""
        try:
            facts = read_facts(mask, max_pixels=self._max_pixels)
            levels = self._pixels(mask, facts)
        except BadImage:
            return None
        if levels.ndim == 3:
            levels = levels[:, :, 0]
        # A stencil is black, 0, where it lets the image through.
        return 255 - levels if facts.is_stencil else levels

    def _with_alpha(self, pixels: Samples, alpha: Samples, mask: pikepdf.Stream) -> EncodedImage:
        height, width = (max(a, b) for a, b in zip(pixels.shape[:2], alpha.shape, strict=True))
        pixels, alpha = _resized(pixels, width, height), _resized(alpha, width, height)
        colours = _opaque(pixels).reshape(height, width, -1)
        colours = _without_matte(colours, alpha, mask)
        return _png_of_pixels(np.concatenate((colours, alpha[:, :, np.newaxis]), axis=2), None)

    def _pixels(self, image: pikepdf.Stream, facts: ImageFacts) -> Samples:
        """Gray (height, width), or (height, width, channels)."""
        samples = None if facts.has_colour_key else read_samples(image, facts)
        pixels = None if samples is None else samples.as_pixels()
        return self._decoded(image, facts) if pixels is None else pixels

    def _decoded(self, image: pikepdf.Stream, facts: ImageFacts) -> Samples:
        self._check_inner_size(image, facts)
        try:
            return render(self._pdf, image)
        except BadImage:
            picture = pikepdf.PdfImage(image).as_pil_image()
            return np.asarray(picture.convert("L" if picture.mode in ("1", "L") else "RGB"))

    def _file_in(self, image: pikepdf.Stream, facts: ImageFacts) -> bytes:
        """The JPEG or JPEG 2000 file in a stream, without the filters around it."""
        if len(facts.filters) == 1:
            return image.read_raw_bytes()
        outer = self._pdf.make_stream(image.read_raw_bytes())
        outer["/Filter"] = pikepdf.Array([pikepdf.Name(name) for name in facts.filters[:-1]])
        parameters = image.get("/DecodeParms")
        if isinstance(parameters, pikepdf.Array):
            outer["/DecodeParms"] = pikepdf.Array(list(parameters)[:-1])
        return outer.read_bytes(pikepdf.StreamDecodeLevel.specialized)

    def _check_inner_size(self, image: pikepdf.Stream, facts: ImageFacts) -> None:
        """What the compressed data say of their size counts, not only what the dictionary says."""
        if facts.filters[-1:] == ("/DCTDecode",):
            header = read_header(self._file_in(image, facts))
            if header is not None and header.width * header.height > self._max_pixels:
                raise BadImage("too_many_pixels")
        elif facts.filters[-1:] == ("/CCITTFaxDecode",):
            columns = int(facts.last_parameters.get("/Columns", 1728))
            rows = int(facts.last_parameters.get("/Rows", 0))
            if columns * max(rows, facts.height) > self._max_pixels:
                raise BadImage("too_many_pixels")


def _original_bytes(data: bytes, facts: ImageFacts) -> EncodedImage | None:
    if facts.decode is not None or facts.is_stencil:
        return None
    if facts.filters[-1:] == ("/DCTDecode",):
        return _original_jpeg(data, facts)
    if facts.filters[-1:] == ("/JPXDecode",):
        return _original_jpeg_2000(data, facts)
    return None


def _original_jpeg(data: bytes, facts: ImageFacts) -> EncodedImage | None:
    header = read_header(data)
    if header is None or not header.is_common or not header.is_complete:
        return None
    if (header.width, header.height) != (facts.width, facts.height):
        return None
    kind = facts.colour_space.kind if facts.colour_space else None
    if header.components == 3 and kind in ("rgb", None):
        transform = header.adobe_transform
        if transform is None:
            transform = int(facts.last_parameters.get("/ColorTransform", 1))
        if header.viewer_sees_ycc != (transform != 0):
            return None
    elif not (header.components == 1 and kind in ("gray", None)):
        return None
    return EncodedImage(data, "image/jpeg", header.width, header.height)


def _original_jpeg_2000(data: bytes, facts: ImageFacts) -> EncodedImage | None:
    if data.startswith(_JP2_SIGNATURE):
        media_type = "image/jp2"
    elif data.startswith(_CODESTREAM_SIGNATURE):
        media_type = "image/j2c"
    else:
        return None
    with Image.open(io.BytesIO(data)) as picture:  # reads the header only
        width, height = picture.size
        mode = picture.mode
    if (width, height) != (facts.width, facts.height) or facts.soft_mask_in_data:
        return None
    kind = facts.colour_space.kind if facts.colour_space else None
    if (mode, kind) not in (("L", "gray"), ("L", None), ("RGB", "rgb"), ("RGB", None)):
        return None
    return EncodedImage(data, media_type, width, height)


def _png_of_samples(samples: PackedSamples) -> EncodedImage:
    data = png.encode(
        samples.rows,
        width=samples.width,
        bit_depth=samples.bits,
        colour_type=samples.png_colour_type,
        palette=samples.palette,
    )
    return EncodedImage(data, "image/png", samples.width, samples.rows.shape[0])


def _png_of_pixels(pixels: Samples, facts: ImageFacts | None) -> EncodedImage:
    height, width = pixels.shape[:2]
    if facts is not None and facts.bits == 1 and pixels.ndim == 2 and _is_bilevel(pixels):
        packed = np.packbits(pixels != 0, axis=1)
        data = png.encode(packed, width=width, bit_depth=1, colour_type=png.GRAY)
    else:
        channels = 1 if pixels.ndim == 2 else pixels.shape[2]
        colour_type = (png.GRAY, png.GRAY_ALPHA, png.RGB, png.RGB_ALPHA)[channels - 1]
        data = png.encode(pixels, width=width, bit_depth=8, colour_type=colour_type)
    return EncodedImage(data, "image/png", width, height)


def _opaque(pixels: Samples) -> Samples:
    return pixels[:, :, :3] if pixels.ndim == 3 else pixels


def _is_bilevel(pixels: Samples) -> bool:
    return bool(np.all((pixels == 0) | (pixels == 255)))


def _resized(pixels: Samples, width: int, height: int) -> Samples:
    if pixels.shape[:2] == (height, width):
        return pixels
    picture = Image.fromarray(np.ascontiguousarray(pixels))
    return np.asarray(picture.resize((width, height), Image.Resampling.NEAREST))


def _without_matte(colours: Samples, alpha: Samples, mask: pikepdf.Stream) -> Samples:
    """Undo a blending with one colour that the mask's /Matte declares (ISO 32000-2, 11.6.5.2)."""
    matte = mask.get("/Matte")
    if not isinstance(matte, pikepdf.Array) or len(matte) != colours.shape[2]:
        return colours
    colour = np.array([float(component) * 255 for component in list(matte)], np.float32)
    share = np.maximum(alpha, 1).astype(np.float32)[:, :, np.newaxis] / 255
    return np.clip(colour + (colours - colour) / share, 0, 255).astype(np.uint8)
