"""Reads the samples of images that are packed in a way that PNG has too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pikepdf

from deploy.extractor.engine import png
from deploy.extractor.engine.facts import ImageFacts
from deploy.extractor.engine.png import Samples

_GENERAL_FILTERS = {
    "/FlateDecode",
    "/LZWDecode",
    "/ASCII85Decode",
    "/ASCIIHexDecode",
    "/RunLengthDecode",
}
_DEPTHS = {"gray": (1, 2, 4, 8, 16), "rgb": (8, 16), "indexed": (1, 2, 4, 8)}


@dataclass(frozen=True)
class PackedSamples:
    """Rows as in the stream. `palette` is set for palette images."""

    width: int
    bits: int
    rows: Samples
    png_colour_type: int
    palette: bytes | None = None

    def as_pixels(self) -> Samples | None:
        """8-bit gray or RGB; None where that takes more than another view of the rows."""
        height = self.rows.shape[0]
        if self.png_colour_type == png.GRAY and self.bits == 8:
            return self.rows
        if self.png_colour_type == png.RGB and self.bits == 8:
            return self.rows.reshape(height, self.width, 3)
        if self.png_colour_type == png.GRAY and self.bits == 1:
            return np.unpackbits(self.rows, axis=1, count=self.width) * np.uint8(255)
        if self.png_colour_type == png.PALETTE and self.bits in (1, 8):
            colours = np.frombuffer(self.palette or b"", np.uint8).reshape(-1, 3)
            is_packed = self.bits == 1
            places = np.unpackbits(self.rows, axis=1, count=self.width) if is_packed else self.rows
            return colours[places]
        return None

    def alpha_by_key(self, key: Sequence[int], *, inverted: bool) -> Samples | None:
        """0 where every component is in the range of the key (least, greatest), 255 elsewhere.

        `inverted`: the rows are not as in the stream, which is what a key is about, but inverted.
        None where the key does not fit.
        """
        components = self._components(~self.rows if inverted else self.rows)
        if len(key) != 2 * components.shape[2]:
            return None
        is_painted = np.zeros(components.shape[:2], bool)
        for number in range(components.shape[2]):
            levels = components[:, :, number]
            is_painted |= (levels < key[2 * number]) | (levels > key[2 * number + 1])
        return is_painted * np.uint8(255)

    def _components(self, rows: Samples) -> npt.NDArray[np.integer[Any]]:
        """The samples one by one: (height, width, components)."""
        height, components = rows.shape[0], 3 if self.png_colour_type == png.RGB else 1
        if self.bits >= 8:
            samples = rows.view(">u2" if self.bits == 16 else np.uint8)
        else:
            shifts = np.arange(8 - self.bits, -1, -self.bits, dtype=np.uint8)
            least_bits = np.uint8((1 << self.bits) - 1)
            samples = ((rows[:, :, np.newaxis] >> shifts) & least_bits).reshape(height, -1)
        return samples[:, : self.width * components].reshape(height, self.width, components)


def read_samples(image: pikepdf.Stream, facts: ImageFacts) -> PackedSamples | None:
    """The samples as they are, None where they need a conversion or the stream is too short."""
    kind = "gray" if facts.is_stencil else facts.colour_space.kind if facts.colour_space else None
    if kind is None or facts.bits not in _DEPTHS.get(kind, ()):
        return None
    if not set(facts.filters) <= _GENERAL_FILTERS:
        return None
    if facts.decode is not None and not (kind == "gray" and facts.inverts):
        return None
    components = 3 if kind == "rgb" else 1
    row_bytes = (facts.width * components * facts.bits + 7) // 8
    try:
        data = image.read_bytes(pikepdf.StreamDecodeLevel.specialized)
    except pikepdf.PdfError:
        return None  # damaged; the renderer shows as much as there is
    if len(data) < row_bytes * facts.height:
        return None
    rows = np.frombuffer(data, np.uint8, row_bytes * facts.height).reshape(-1, row_bytes)
    return with_colours(~rows if facts.inverts else rows, facts)


def with_colours(rows: Samples, facts: ImageFacts) -> PackedSamples:
    """These rows as the image's gray, RGB or palette."""
    kind = facts.colour_space.kind if facts.colour_space else "gray"
    if kind == "indexed":
        palette = facts.colour_space.palette if facts.colour_space else b""
        size = 3 << facts.bits
        palette = (palette or b"")[:size].ljust(size, b"\0")
        return PackedSamples(facts.width, facts.bits, rows, png.PALETTE, palette)
    colour_type = png.RGB if kind == "rgb" else png.GRAY
    return PackedSamples(facts.width, facts.bits, rows, colour_type)
