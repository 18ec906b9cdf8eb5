"""What an image's dictionary says, checked and in one form (ISO 32000-2, 8.9.5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pikepdf

from deploy.extractor.engine.colour import ColourSpace, read_colour_space
from deploy.extractor.engine.model import BadImage

_LARGEST_SIDE = 1 << 17
# Short names are for inline images, but readers accept them everywhere and writers rely on it.
_FULL_FILTER_NAMES = {
    "/AHx": "/ASCIIHexDecode",
    "/A85": "/ASCII85Decode",
    "/LZW": "/LZWDecode",
    "/Fl": "/FlateDecode",
    "/RL": "/RunLengthDecode",
    "/CCF": "/CCITTFaxDecode",
    "/DCT": "/DCTDecode",
}


@dataclass(frozen=True)
class ImageFacts:
    """`decode` is None where it is absent or changes nothing, so only a real one is left.

    `colour_key` is the least and the greatest sample of each component that are not painted.
    """

    width: int
    height: int
    bits: int
    filters: tuple[str, ...]
    last_parameters: dict[str, Any]
    colour_space: ColourSpace | None
    decode: tuple[float, ...] | None
    is_stencil: bool
    soft_mask: pikepdf.Stream | None
    stencil_mask: pikepdf.Stream | None
    colour_key: tuple[int, ...] | None
    soft_mask_in_data: bool
    is_premultiplied: bool
    """By that mask: its colours are blended with black already."""

    @property
    def profile(self) -> bytes | None:
        """A colour profile that makes a visible difference; black and white have none."""
        return self.colour_space.profile if self.colour_space and self.bits > 1 else None

    @property
    def is_bilevel(self) -> bool:
        """Whether every pixel is black or white."""
        space = self.colour_space
        is_gray = self.is_stencil or (space is not None and space.kind == "gray")
        return self.bits == 1 and is_gray and (self.decode is None or self.inverts)

    @property
    def has_two_colours(self) -> bool:
        """Whether every pixel is one of two colours of a palette."""
        space = self.colour_space
        is_indexed = space is not None and space.kind == "indexed"
        return self.bits == 1 and is_indexed and self.decode is None

    @property
    def inverts(self) -> bool:
        """Whether `decode` does no more than swap black and white."""
        return self.decode == (1.0, 0.0)


def read_facts(image: pikepdf.Stream, *, max_pixels: int) -> ImageFacts:
    """Read an image's dictionary.

    Raises BadImage "bad_dimensions" or "too_many_pixels".
    """
    width, height = _dimension(image, "/Width"), _dimension(image, "/Height")
    if width * height > max_pixels:
        raise BadImage("too_many_pixels")
    filters = read_filters(image)
    is_stencil = is_stencil_mask(image)
    colour_space = None
    if not is_stencil and "/ColorSpace" in image:
        colour_space = read_colour_space(image["/ColorSpace"])
    bits = 1 if is_stencil else _integer(image.get("/BitsPerComponent"), 8)
    if filters and filters[-1] in ("/CCITTFaxDecode", "/JBIG2Decode"):
        bits = 1
    soft_mask, mask = image.get("/SMask"), image.get("/Mask")
    in_data = _integer(image.get("/SMaskInData"), 0)
    return ImageFacts(
        width=width,
        height=height,
        bits=bits,
        filters=filters,
        last_parameters=_last_parameters(image),
        colour_space=colour_space,
        decode=_decode(image, colour_space, bits),
        is_stencil=is_stencil,
        soft_mask=soft_mask if isinstance(soft_mask, pikepdf.Stream) else None,
        stencil_mask=mask if isinstance(mask, pikepdf.Stream) else None,
        colour_key=_colour_key(mask),
        soft_mask_in_data=in_data != 0,
        is_premultiplied=in_data == 2,
    )


def declared_pixels(image: pikepdf.Stream) -> int:
    """What the dictionary says, unchecked."""
    return _integer(image.get("/Width"), 0) * _integer(image.get("/Height"), 0)


def is_stencil_mask(image: pikepdf.Stream) -> bool:
    """Whether an image has no colours but says where to paint."""
    value: Any = image.get("/ImageMask")
    return value is True


def read_filters(image: pikepdf.Stream) -> tuple[str, ...]:
    """The filters of a stream, outermost encoding first, by their full names."""
    names = image.get("/Filter")
    if names is None:
        return ()
    entries = list(names) if isinstance(names, pikepdf.Array) else [names]
    return tuple(_FULL_FILTER_NAMES.get(str(name), str(name)) for name in entries)


def _dimension(image: pikepdf.Stream, key: str) -> int:
    value = _integer(image.get(key), 0)
    if not 0 < value <= _LARGEST_SIDE:
        raise BadImage("bad_dimensions")
    return value


def _integer(value: object, default: int) -> int:
    return int(value) if isinstance(value, int | float | Decimal) else default


def _last_parameters(image: pikepdf.Stream) -> dict[str, Any]:
    """The parameters of the innermost filter, which is the one that decodes the image."""
    parameters = image.get("/DecodeParms", image.get("/DP"))
    if isinstance(parameters, pikepdf.Array):
        parameters = parameters[-1] if len(parameters) else None
    if not isinstance(parameters, pikepdf.Dictionary):
        return {}
    return dict(parameters.items())


def _decode(
    image: pikepdf.Stream, colour_space: ColourSpace | None, bits: int
) -> tuple[float, ...] | None:
    value = image.get("/Decode")
    if not isinstance(value, pikepdf.Array) or not len(value):
        return None
    try:
        decode = tuple(float(entry) for entry in _entries(value))
    except (TypeError, ValueError):
        return None
    if colour_space is not None and colour_space.kind == "indexed":
        usual: tuple[float, ...] = (0.0, float((1 << bits) - 1))
    elif colour_space is not None and colour_space.kind == "other":
        return decode
    else:
        usual = (0.0, 1.0) * (len(decode) // 2)
    return None if decode == usual else decode


def _colour_key(mask: object) -> tuple[int, ...] | None:
    if not isinstance(mask, pikepdf.Array):
        return None
    return tuple(_integer(entry, -1) for entry in _entries(mask))


def _entries(value: pikepdf.Array) -> Sequence[Any]:
    return list(value)
