"""Writes PNG files straight from rows of samples.

PDF and PNG pack samples alike (rows start at a byte, most significant bit first, 16 bits big
endian), so most images need no conversion at all: this is several times faster than going
through a pixel library. Layout as in ISO/IEC 15948.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from deploy.extractor.engine import deflate

GRAY, RGB, PALETTE, GRAY_ALPHA, RGB_ALPHA = 0, 2, 3, 4, 6

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_BLOCK_BYTES = 1 << 18  # what stays in the processor's cache from one step to the next
_NO_FILTER, _UP_FILTER = 0, 2

Samples = npt.NDArray[np.uint8]


def encode(
    blocks: Iterable[Samples],
    *,
    width: int,
    height: int,
    bit_depth: int,
    colour_type: int,
    palette: bytes | None = None,
    icc_profile: bytes | None = None,
) -> bytes:
    """A PNG file of these rows.

    The rows come some at a time, from the top: (rows, bytes per row), or (rows, width[, channels])
    for 8-bit samples; any strides will do. `palette` is RGB triples, `icc_profile` the profile of
    the samples.
    """
    header = struct.pack(">IIBBBBB", width, height, bit_depth, colour_type, 0, 0, 0)
    parts = [_SIGNATURE, _chunk(b"IHDR", header)]
    if icc_profile is not None:
        parts.append(_chunk(b"iCCP", b"icc\0\0" + zlib.compress(icc_profile)))
    if palette is not None:
        parts.append(_chunk(b"PLTE", palette))
    differences = bit_depth >= 8 and colour_type != PALETTE
    parts.append(
        _chunk(b"IDAT", b"".join(deflate.compress(_filtered(blocks, differences=differences))))
    )
    parts.append(_chunk(b"IEND", b""))
    return b"".join(parts)


def in_blocks(rows: Samples) -> Iterator[Samples]:
    """All rows of a picture, some at a time."""
    step = rows_at_a_time(rows[0].size)
    for top in range(0, rows.shape[0], step):
        block = rows[top : top + step]
        if block.ndim == 3 and not block.flags.c_contiguous:
            contiguous = np.empty(block.shape, np.uint8)
            copy_channels(block, contiguous)
            block = contiguous
        yield block


def copy_channels(source: Samples, target: Samples) -> None:
    """One channel after another, which is several times as fast as all in one assignment."""
    for channel in range(source.shape[2]):
        target[:, :, channel] = source[:, :, channel]


def rows_at_a_time(row_bytes: int) -> int:
    return max(1, _BLOCK_BYTES // max(1, row_bytes))


def _filtered(blocks: Iterable[Samples], *, differences: bool) -> Iterator[Samples]:
    """The rows with their filters, block by block so that a large image is never copied whole."""
    above: Samples | None = None
    for shaped in blocks:
        block = shaped.reshape(shaped.shape[0], -1)
        filtered = np.empty((block.shape[0], block.shape[1] + 1), np.uint8)
        if differences:
            filtered[:, 0] = _UP_FILTER
            np.subtract(block[:1], 0 if above is None else above, out=filtered[:1, 1:])
            np.subtract(block[1:], block[:-1], out=filtered[1:, 1:])
            above = block[-1:]
        else:
            filtered[:, 0] = _NO_FILTER
            filtered[:, 1:] = block
        yield filtered


def _chunk(kind: bytes, data: bytes) -> bytes:
    checksum = deflate.crc32(kind, data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)
