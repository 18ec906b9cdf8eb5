"""Gives a black and white page in its own coding: a TIFF file around the CCITT Group 4 data.

TIFF 6.0, sections 3 and 10; ITU-T T.6 for the mark at the end of the data.
"""

from __future__ import annotations

import struct

import pikepdf

from deploy.extractor.engine.facts import ImageFacts

# A PNG is what every program shows, so it is what pages become; beyond 32 million pixels (an A2
# plan at 300 dpi, an A4 page at 600 dpi) decoding takes a hundred times as long as this.
_SMALLEST_PIXELS = 1 << 25
_END_OF_BLOCK = "000000000001" * 2
_LONG, _SHORT = 4, 3
_HEADER_BYTES = 8 + 2 + 9 * 12 + 4  # the file's header and one directory of nine entries


def group4_as_tiff(image: pikepdf.Stream, facts: ImageFacts) -> bytes | None:
    """The file, or None where the image is small, is not Group 4 or is coded in an odd way."""
    parameters = facts.last_parameters
    if (
        facts.filters != ("/CCITTFaxDecode",)
        or facts.width * facts.height < _SMALLEST_PIXELS
        or not facts.is_bilevel
        or parameters.get("/K", 0) >= 0
        or parameters.get("/EncodedByteAlign") is True
        or parameters.get("/Columns", 1728) != facts.width
        or parameters.get("/Rows", facts.height) != facts.height
    ):
        return None
    data = image.read_raw_bytes()
    last_bits = "".join(f"{byte:08b}" for byte in data[-8:])
    if _END_OF_BLOCK not in last_bits:
        return None
    is_inverted = (parameters.get("/BlackIs1") is True) != facts.inverts
    return _tiff(data, facts.width, facts.height, white_is_zero=not is_inverted)


def _tiff(data: bytes, width: int, height: int, *, white_is_zero: bool) -> bytes:
    entries = [
        (256, _LONG, width),
        (257, _LONG, height),
        (258, _SHORT, 1),  # bits per sample
        (259, _SHORT, 4),  # compression: Group 4
        (262, _SHORT, 0 if white_is_zero else 1),
        (273, _LONG, _HEADER_BYTES),  # where the data begin
        (277, _SHORT, 1),  # samples per pixel
        (278, _LONG, height),  # rows per strip
        (279, _LONG, len(data)),
    ]
    directory = struct.pack("<H", len(entries))
    for tag, kind, value in entries:
        directory += struct.pack("<HHII", tag, kind, 1, value)
    return struct.pack("<2sHI", b"II", 42, 8) + directory + struct.pack("<I", 0) + data
