"""Colour profiles: whether one changes anything that can be seen, and the conversion to sRGB."""

from __future__ import annotations

import functools
import io

import numpy as np
from PIL import Image, ImageCms

from deploy.extractor.engine.png import Samples

_LARGEST_DIFFERENCE = 2.0  # mean of 8-bit samples
_STEPS = np.linspace(0, 255, 9, dtype=np.uint8)


@functools.lru_cache(maxsize=64)
def is_like_srgb(profile: bytes, components: int) -> bool:
    """Whether samples under this profile look the same when taken for sRGB (or for its grays).

    Measured by converting a set of colours, since profiles that differ by name or by a byte are
    mostly the same. Viewers ignore a profile that cannot be read, so it counts as alike.
    """
    colours = _STEPS[np.newaxis, :]
    if components == 3:
        colours = np.stack(np.meshgrid(_STEPS, _STEPS, _STEPS), axis=-1).reshape(1, -1, 3)
    try:
        converted = to_srgb(colours, profile)
    except (ImageCms.PyCMSError, OSError, ValueError):
        return True
    before = np.asarray(Image.fromarray(colours).convert("RGB"), np.int16)
    return bool(
        np.abs(before - converted.reshape(*before.shape[:2], -1)).mean() <= _LARGEST_DIFFERENCE
    )


def in_srgb(pixels: Samples, profile: bytes | None) -> Samples:
    """Pixels that may be under a profile."""
    return pixels if profile is None else to_srgb(pixels, profile)


def to_srgb(pixels: Samples, profile: bytes) -> Samples:
    """Gray or RGB pixels under this profile as sRGB, gray again where no colour came out."""
    picture = Image.fromarray(np.ascontiguousarray(pixels))
    converted = np.asarray(ImageCms.applyTransform(picture, _transform(profile, picture.mode)))
    is_gray = pixels.ndim == 2 and bool(np.all(converted == converted[:, :, :1]))
    return converted[:, :, 0] if is_gray else converted


@functools.lru_cache(maxsize=64)
def _transform(profile: bytes, mode: str) -> ImageCms.ImageCmsTransform:
    source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
    return ImageCms.buildTransform(source, ImageCms.createProfile("sRGB"), mode, "RGB")
