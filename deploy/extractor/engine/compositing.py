"""Puts the colours of an image and its mask together, at the size of the larger of the two."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pikepdf

from deploy.extractor.engine import png
from deploy.extractor.engine.png import Samples

BLACK: Sequence[float] = ()
"""A matte of as many components as the image has."""


def opaque(pixels: Samples) -> Samples:
    """The colours alone, without an alpha channel."""
    return pixels[:, :, :3] if pixels.ndim == 3 else pixels


def resized(pixels: Any, width: int, height: int) -> Any:
    """By repeating pixels, as a viewer without smoothing does."""
    if pixels.shape[:2] == (height, width):
        return pixels
    rows, columns = _places(height, pixels.shape[0]), _places(width, pixels.shape[1])
    return pixels.take(columns, axis=1).take(rows, axis=0)


def _places(size: int, source: int) -> Any:
    """For each of so many rows or columns, the one of the source that it repeats."""
    return np.arange(size) * source // size


def with_channel(colours: Samples, alpha: Samples) -> Iterator[Samples]:
    """Colours at the size of their alpha channel, and with it as the last channel, in blocks.

    Blocks, since the whole picture is four times as large as its mask. Two or four samples are
    moved as one number, which is much faster than one by one.
    """
    channels = 2 if colours.ndim == 2 else 4
    height, width = alpha.shape
    rows, columns = _places(height, colours.shape[0]), _places(width, colours.shape[1])
    step = png.rows_at_a_time(width * channels)
    for top in range(0, height, step):
        places = rows[top : top + step]
        source = np.atleast_3d(colours[places[0] : places[-1] + 1])
        wide = np.empty((*source.shape[:2], channels), np.uint8)
        png.copy_channels(source, wide)
        pixels = wide.view(np.uint16 if channels == 2 else np.uint32)[:, :, 0]
        if source.shape[1] != width:
            pixels = pixels.take(columns, axis=1)
        if source.shape[0] != len(places):
            pixels = pixels.take(places - places[0], axis=0)
        block = pixels.view(np.uint8).reshape(len(places), width, channels)
        block[:, :, -1] = alpha[top : top + step]
        yield block


def matte_of(mask: pikepdf.Stream | None) -> tuple[float, ...] | None:
    """The colour that a mask's /Matte says its image is blended with, of components from 0 to 1."""
    matte = None if mask is None else mask.get("/Matte")
    if not isinstance(matte, pikepdf.Array):
        return None
    return tuple(float(component) for component in list(matte)) or None


def without_matte(colours: Samples, alpha: Samples, matte: Sequence[float]) -> Samples:
    """Undo a blending with one colour (ISO 32000-2, 11.6.5.2). A colour of as many components as
    another image has is none."""
    channels = np.atleast_3d(colours).shape[2]
    if matte == BLACK:
        matte = (0.0,) * channels
    if len(matte) != channels:
        return colours
    colour = np.array([component * 255 for component in matte], np.float32)
    share = np.maximum(alpha, 1).astype(np.float32)[:, :, np.newaxis] / 255
    unmixed = colour + (np.atleast_3d(colours) - colour) / share
    return np.clip(unmixed, 0, 255).astype(np.uint8).reshape(colours.shape)
