"""Turns one image of a document into one file, by the cheapest way that is right.

Decoding and encoding are apart: what is decoded can be encoded while the next is being decoded.

In this order: the bytes of the stream where they are a JPEG or JPEG 2000 file that a viewer shows
as the page does; a TIFF around the data of a large fax page; a PNG of the samples as they are
packed in the stream; a PNG of the pixels as PDFium decodes them; and, where PDFium gives up, as
pikepdf and Pillow do.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pikepdf

from deploy.extractor.engine import jpeg, jpeg2000
from deploy.extractor.engine.compositing import BLACK, matte_of, opaque
from deploy.extractor.engine.encoding import (
    DecodedImage,
    file_of,
    png_of_pixels,
    png_of_samples,
    png_with_alpha,
)
from deploy.extractor.engine.facts import ImageFacts, declared_pixels, read_facts
from deploy.extractor.engine.fax import group4_as_tiff
from deploy.extractor.engine.model import BadImage, SoftMasks
from deploy.extractor.engine.png import Samples
from deploy.extractor.engine.profiles import in_srgb
from deploy.extractor.engine.rendering import render, render_bilevel, render_fax
from deploy.extractor.engine.samples import PackedSamples, read_samples, with_colours


class Decoder:
    """Decodes the images of one file."""

    def __init__(
        self,
        pdf: pikepdf.Pdf,
        *,
        max_pixels: int,
        soft_masks: SoftMasks,
        make_room: Callable[[int], None],
    ) -> None:
        """`make_room` is called with the number of pixels before so many are decoded."""
        self._pdf = pdf
        self._make_room = make_room
        self._max_pixels = max_pixels
        self._soft_masks = soft_masks

    def files(self, image: pikepdf.Stream) -> list[DecodedImage]:
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

    def _files(self, image: pikepdf.Stream) -> list[DecodedImage]:
        facts = read_facts(image, max_pixels=self._max_pixels)
        mask = facts.soft_mask if facts.soft_mask is not None else facts.stencil_mask
        mask_pixels = 0 if mask is None else declared_pixels(mask)
        self._make_room(facts.width * facts.height + mask_pixels)
        is_plain = mask is None and facts.colour_key is None and not facts.soft_mask_in_data
        if self._soft_masks == "ignore" or is_plain:
            return [self._alone(image, facts)]
        if self._soft_masks == "separate" and mask is not None:
            return [self._alone(image, facts), *self._mask_alone(mask)]
        alpha = self._own_alpha(image, facts) if mask is None else self._alpha(mask)
        if alpha is None or alpha.min() == 255:
            return [self._alone(image, facts)]
        if self._soft_masks == "separate":
            return [self._alone(image, facts), replace(png_of_pixels(alpha), is_mask=True)]
        colours, profile = self._pixels(image, facts)
        matte = BLACK if facts.is_premultiplied and mask is None else matte_of(mask)
        return [png_with_alpha(opaque(colours), profile, alpha, matte, self._max_pixels)]

    def _alone(self, image: pikepdf.Stream, facts: ImageFacts) -> DecodedImage:
        if facts.filters[-1:] in (("/DCTDecode",), ("/JPXDecode",)):
            original = _original_bytes(self._file_in(image, facts), facts)
            if original is not None:
                return original
        page = group4_as_tiff(image, facts)
        if page is not None:
            return file_of(page, "image/tiff", facts.width, facts.height)
        samples = self._samples(image, facts)
        if samples is not None and facts.profile is None:
            return png_of_samples(samples)
        pixels, profile = self._pixels(image, facts)
        return png_of_pixels(opaque(pixels), profile)

    def _mask_alone(self, mask: pikepdf.Stream) -> list[DecodedImage]:
        """The mask as an image, or none where it cannot be read, which viewers ignore."""
        try:
            facts = read_facts(mask, max_pixels=self._max_pixels)
            return [replace(self._alone(mask, facts), is_mask=True)]
        except MemoryError:
            raise
        except Exception:
            return []

    def _alpha(self, mask: pikepdf.Stream) -> Samples | None:
        """How opaque each pixel is; None where the mask cannot be read, which viewers ignore."""
        try:
            facts = read_facts(mask, max_pixels=self._max_pixels)
            levels = in_srgb(*self._pixels(mask, facts))
        except MemoryError:
            raise
        except Exception:
            return None
        if levels.ndim == 3:
            levels = levels[:, :, 0]
        # A stencil is black, 0, where it lets the image through.
        return 255 - levels if facts.is_stencil else levels

    def _own_alpha(self, image: pikepdf.Stream, facts: ImageFacts) -> Samples | None:
        """How opaque each pixel is by a colour key, or by the alpha channel of a JPEG 2000 file."""
        if facts.colour_key is None:
            self._check_inner_size(image, facts)
            return jpeg2000.alpha_channel(self._file_in(image, facts))
        samples = self._samples(image, facts)
        if samples is not None:
            return samples.alpha_by_key(facts.colour_key, inverted=facts.inverts)
        pixels = self._decoded(image, facts)
        return pixels[:, :, 3] if pixels.ndim == 3 and pixels.shape[2] == 4 else None

    def _pixels(self, image: pikepdf.Stream, facts: ImageFacts) -> tuple[Samples, bytes | None]:
        """Gray (height, width) or (height, width, channels), and the profile they are under."""
        packed = self._samples if facts.has_two_colours else self._packed
        samples = packed(image, facts)
        pixels = None if samples is None else samples.as_pixels()
        if samples is None and facts.is_bilevel:
            pixels = self._bilevel(image, facts)
        if pixels is None:
            return self._decoded(image, facts), None
        return pixels, facts.profile

    def _samples(self, image: pikepdf.Stream, facts: ImageFacts) -> PackedSamples | None:
        samples = self._packed(image, facts)
        if samples is None and (facts.is_bilevel or facts.has_two_colours):
            pixels = self._bilevel(image, facts)
            if pixels is not None:
                return with_colours(np.packbits(pixels, axis=1), facts)
        return samples

    def _packed(self, image: pikepdf.Stream, facts: ImageFacts) -> PackedSamples | None:
        """The samples of those codings that give them packed as PNG has them."""
        if facts.filters[-1:] != ("/CCITTFaxDecode",) or not (
            facts.is_bilevel or facts.has_two_colours
        ):
            return read_samples(image, facts)
        self._check_inner_size(image, facts)
        with contextlib.suppress(BadImage):
            return with_colours(render_fax(self._pdf, image, inverted=facts.inverts), facts)
        return None

    def _bilevel(self, image: pikepdf.Stream, facts: ImageFacts) -> Samples | None:
        self._check_inner_size(image, facts)
        with contextlib.suppress(BadImage):
            return render_bilevel(self._pdf, image, inverted=facts.inverts)
        return None

    def _decoded(self, image: pikepdf.Stream, facts: ImageFacts) -> Samples:
        self._check_inner_size(image, facts)
        try:
            pixels = render(self._pdf, image)
            is_gray = facts.colour_space is not None and facts.colour_space.kind == "gray"
            # PDFium gives gray with a /Decode of its own as RGB.
            is_wide = is_gray and facts.profile is None and pixels.ndim == 3
            return pixels[:, :, 0] if is_wide and pixels.shape[2] == 3 else pixels
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
            self._check_size(jpeg.read_header(self._file_in(image, facts)))
        elif facts.filters[-1:] == ("/JPXDecode",):
            self._check_size(jpeg2000.read_header(self._file_in(image, facts)))
        elif facts.filters[-1:] == ("/CCITTFaxDecode",):
            columns = int(facts.last_parameters.get("/Columns", 1728))
            rows = int(facts.last_parameters.get("/Rows", 0))
            if columns * max(rows, facts.height) > self._max_pixels:
                raise BadImage("too_many_pixels")

    def _check_size(self, header: jpeg.JpegHeader | jpeg2000.Jpeg2000Header | None) -> None:
        if header is not None and header.width * header.height > self._max_pixels:
            raise BadImage("too_many_pixels")


def _original_bytes(data: bytes, facts: ImageFacts) -> DecodedImage | None:
    if facts.decode is not None or facts.is_stencil:
        return None
    if facts.filters[-1:] == ("/DCTDecode",):
        return _original_jpeg(data, facts)
    if facts.filters[-1:] == ("/JPXDecode",):
        return _original_jpeg_2000(data, facts)
    return None


def _original_jpeg(data: bytes, facts: ImageFacts) -> DecodedImage | None:
    header = jpeg.read_header(data)
    if header is None or not header.is_common or not header.is_complete:
        return None
    if (header.width, header.height) != (facts.width, facts.height):
        return None
    if not _may_stay(facts, header.components, has_profile=header.has_profile):
        return None
    if header.components == 3:
        transform = header.adobe_transform
        if transform is None:
            transform = int(facts.last_parameters.get("/ColorTransform", 1))
        if header.viewer_sees_ycc != (transform != 0):
            return None
    return file_of(data, "image/jpeg", header.width, header.height)


def _original_jpeg_2000(data: bytes, facts: ImageFacts) -> DecodedImage | None:
    header = jpeg2000.read_header(data)
    if header is None or not header.is_plain or facts.soft_mask_in_data:
        return None
    if (header.width, header.height) != (facts.width, facts.height):
        return None
    if not _may_stay(facts, header.components, has_profile=False):
        return None
    if not header.is_jp2:
        data = jpeg2000.as_jp2(data, header)
    return file_of(data, "image/jp2", header.width, header.height)


def _may_stay(facts: ImageFacts, components: int, *, has_profile: bool) -> bool:
    """Whether a viewer of the file alone sees the colours that the document declares."""
    space = facts.colour_space
    if space is None:
        return components in (1, 3)
    if space.profile is not None and not has_profile:
        return False
    return (space.kind, components) in (("gray", 1), ("rgb", 3))
