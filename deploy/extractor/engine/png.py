"""Writes PNG files straight from rows of samples.

PDF and PNG pack samples alike (rows start at a byte, most significant bit first, 16 bits big
endian), so most images need no conversion at all: this is several times faster than going
through a pixel library. Layout as in ISO/IEC 15948.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from isal import isal_zlib

GRAY, RGB, PALETTE, GRAY_ALPHA, RGB_ALPHA = 0, 2, 3, 4, 6

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_BLOCK_BYTES = 1 << 20
_NO_FILTER, _UP_FILTER = 0, 2
# ISA-L at level 1 makes files of the size that zlib makes at its level 1, five times as fast.
_LEVEL = 1

Samples = npt.NDArray[np.uint8]


def encode(
    rows: Samples,
    *,
    width: int,
    bit_depth: int,
    colour_type: int,
    palette: bytes | None = None,
    icc_profile: bytes | None = None,
) -> bytes:
    """A PNG file of these rows.

    `rows` is (height, bytes per row), or (height, width[, channels]) for 8-bit samples; any
    strides will do. `palette` is RGB triples, `icc_profile` the profile of the samples.
    """
    header = struct.pack(">IIBBBBB", width, rows.shape[0], bit_depth, colour_type, 0, 0, 0)
    parts = [_SIGNATURE, _chunk(b"IHDR", header)]
    if icc_profile is not None:
        parts.append(_chunk(b"iCCP", b"icc\0\0" + zlib.compress(icc_profile)))
    if palette is not None:
        parts.append(_chunk(b"PLTE", palette))
    differences = bit_depth >= 8 and colour_type != PALETTE
    parts.append(_chunk(b"IDAT", b"".join(_compressed(rows, differences=differences))))
    parts.append(_chunk(b"IEND", b""))
    return b"".join(parts)


def _compressed(rows: Samples, *, differences: bool) -> Iterator[bytes]:
    """The compressed image data, block by block so that a large image is never copied whole."""
    compressor = isal_zlib.compressobj(_LEVEL)
    height = rows.shape[0]
    row_bytes = int(np.prod(rows.shape[1:]))
    step = max(1, _BLOCK_BYTES // max(1, row_bytes))
    above: np.ndarray[Any, np.dtype[np.uint8]] = np.zeros((1, row_bytes), np.uint8)
    for top in range(0, height, step):
        block = rows[top : top + step].reshape(-1, row_bytes)
        filtered = np.empty((block.shape[0], row_bytes + 1), np.uint8)
        if differences:
            filtered[:, 0] = _UP_FILTER
            np.subtract(block[:1], above, out=filtered[:1, 1:])
            np.subtract(block[1:], block[:-1], out=filtered[1:, 1:])
            above = block[-1:]
        else:
            filtered[:, 0] = _NO_FILTER
            filtered[:, 1:] = block
        yield compressor.compress(filtered)
    yield compressor.flush()


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
