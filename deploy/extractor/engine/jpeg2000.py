"""What a JPEG 2000 file says in its header (ITU-T T.800 Annex A and I), and its alpha channel."""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass

import numpy as np
from PIL import Image

from deploy.extractor.engine.png import Samples

_JP2_SIGNATURE = b"\0\0\0\x0cjP  "
_CODESTREAM_START = b"\xff\x4f\xff\x51"  # start of codestream, then the marker of its size
_UNSIGNED_8_BITS = (7, 1, 1)  # depth less one, then full horizontal and vertical resolution


@dataclass(frozen=True)
class Jpeg2000Header:
    """`is_plain`: every component has unsigned 8-bit samples at full resolution."""

    is_jp2: bool
    width: int
    height: int
    components: int
    is_plain: bool


def read_header(data: bytes) -> Jpeg2000Header | None:
    """The header of a JP2 file or a bare codestream, None where the bytes are neither."""
    start = data.find(_CODESTREAM_START)
    is_jp2 = data.startswith(_JP2_SIGNATURE)
    if start < 0 or (start > 0 and not is_jp2) or len(data) < start + 42:
        return None
    right, bottom, left, top = struct.unpack_from(">4I", data, start + 8)
    (components,) = struct.unpack_from(">H", data, start + 40)
    layouts = data[start + 42 : start + 42 + 3 * components]
    return Jpeg2000Header(
        is_jp2=is_jp2,
        width=right - left,
        height=bottom - top,
        components=components,
        is_plain=layouts == bytes(_UNSIGNED_8_BITS) * components,
    )


def as_jp2(codestream: bytes, header: Jpeg2000Header) -> bytes:
    """A JP2 file around a bare codestream of gray or sRGB samples, which few viewers open."""
    image_header = struct.pack(
        ">IIHBBBB", header.height, header.width, header.components, 7, 7, 0, 0
    )
    colour = struct.pack(">BBBI", 1, 0, 0, 17 if header.components == 1 else 16)
    return b"".join(
        (
            _box(b"jP  ", b"\r\n\x87\n"),
            _box(b"ftyp", b"jp2 \0\0\0\0jp2 "),
            _box(b"jp2h", _box(b"ihdr", image_header) + _box(b"colr", colour)),
            _box(b"jp2c", codestream),
        )
    )


def alpha_channel(data: bytes) -> Samples | None:
    """How opaque each pixel is; None where the file says nothing of it or cannot be read."""
    try:
        with Image.open(io.BytesIO(data), formats=["JPEG2000"]) as picture:
            return np.asarray(picture.getchannel("A")) if "A" in picture.getbands() else None
    except (OSError, ValueError, Image.DecompressionBombError):
        return None


def _box(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", 8 + len(content)) + kind + content
