"""The last step of an image: a file of what was decoded.

It needs neither the document nor PDFium, so it can be done in another thread (`encoder.py`) while
the next image is being decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from deploy.extractor.engine import png
from deploy.extractor.engine.compositing import resized, with_channel, without_matte
from deploy.extractor.engine.png import Samples
from deploy.extractor.engine.profiles import in_srgb
from deploy.extractor.engine.samples import PackedSamples


@dataclass(frozen=True)
class DecodedImage:
    """An image file but for its content, which `encode` makes.

    `samples_bytes` is the memory of what is to be encoded, 0 for a file that is there already.
    """

    encode: Callable[[], bytes]
    samples_bytes: int
    media_type: str
    width: int
    height: int
    is_mask: bool = False


def file_of(content: bytes, media_type: str, width: int, height: int) -> DecodedImage:
    """A file that the document has as it is."""
    return DecodedImage(lambda: content, 0, media_type, width, height)


def png_of_samples(samples: PackedSamples) -> DecodedImage:
    rows = samples.rows
    return DecodedImage(
        partial(_of_samples, samples), rows.nbytes, "image/png", samples.width, rows.shape[0]
    )


def png_of_pixels(pixels: Samples, profile: bytes | None = None) -> DecodedImage:
    """Gray or RGB pixels, which may be under a profile."""
    height, width = pixels.shape[:2]
    return DecodedImage(
        partial(_of_pixels, pixels, profile), pixels.nbytes, "image/png", width, height
    )


def png_with_alpha(
    colours: Samples,
    profile: bytes | None,
    alpha: Samples,
    matte: Sequence[float] | None,
    max_pixels: int,
) -> DecodedImage:
    """At the size of the larger of the two: text is often a fine mask over a coarse colour."""
    height, width = (max(a, b) for a, b in zip(colours.shape[:2], alpha.shape, strict=True))
    if width * height > max_pixels:  # a wide image under a high mask
        height, width = colours.shape[:2]
    encode = partial(_with_alpha, colours, profile, alpha, matte, width, height)
    return DecodedImage(encode, colours.nbytes + alpha.nbytes, "image/png", width, height)


def _of_samples(samples: PackedSamples) -> bytes:
    return png.encode(
        png.in_blocks(samples.rows),
        width=samples.width,
        height=samples.rows.shape[0],
        bit_depth=samples.bits,
        colour_type=samples.png_colour_type,
        palette=samples.palette,
    )


def _of_pixels(pixels: Samples, profile: bytes | None) -> bytes:
    pixels = in_srgb(pixels, profile)
    channels = 1 if pixels.ndim == 2 else pixels.shape[2]
    return _of_blocks(png.in_blocks(pixels), pixels.shape[1], pixels.shape[0], channels)


def _with_alpha(
    colours: Samples,
    profile: bytes | None,
    alpha: Samples,
    matte: Sequence[float] | None,
    width: int,
    height: int,
) -> bytes:
    colours, alpha = in_srgb(colours, profile), resized(alpha, width, height)
    if matte is not None:
        colours = without_matte(resized(colours, width, height), alpha, matte)
    channels = 2 if colours.ndim == 2 else 4
    return _of_blocks(with_channel(colours, alpha), width, height, channels)


def _of_blocks(blocks: Iterable[Samples], width: int, height: int, channels: int) -> bytes:
    colour_type = (png.GRAY, png.GRAY_ALPHA, png.RGB, png.RGB_ALPHA)[channels - 1]
    return png.encode(blocks, width=width, height=height, bit_depth=8, colour_type=colour_type)
