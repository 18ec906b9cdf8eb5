"""Is this an image? Decoded in full to prove it; the type comes from the content.

Only the decoders of types that are allowed are ever given a byte, and the size that the header
claims is checked before anything is decoded.
"""

from __future__ import annotations

import hashlib
import io
from typing import BinaryIO

from PIL import (
    Image,
    ImageFile,
    Jpeg2KImagePlugin,
    JpegImagePlugin,
    PngImagePlugin,
    TiffImagePlugin,
    WebPImagePlugin,
)

from consumers.extraction.documents.model import ImageLimits, RejectedImage, VerifiedImage

# The caps are ours and stricter than Pillow's, whose warning would only be noise.
Image.MAX_IMAGE_PIXELS = None
ImageFile.LOAD_TRUNCATED_IMAGES = False

_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"\x00\x00\x00\x0cjP  \r\n\x87\n", "image/jp2"),
    (b"\xff\x4f\xff\x51", "image/j2c"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
    (b"II+\x00", "image/tiff"),
    (b"MM\x00+", "image/tiff"),
    # Known, so that the reason can say "not allowed" and not "not an image".
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
    (b"\x97JB2\r\n\x1a\n", "image/x-jbig2"),
    (b"8BPS", "image/vnd.adobe.photoshop"),
)
# Called without Image.open, which would try every plugin that somebody has registered.
DECODERS: dict[str, type[ImageFile.ImageFile]] = {
    "image/png": PngImagePlugin.PngImageFile,
    "image/jpeg": JpegImagePlugin.JpegImageFile,
    "image/jp2": Jpeg2KImagePlugin.Jpeg2KImageFile,
    "image/j2c": Jpeg2KImagePlugin.Jpeg2KImageFile,
    "image/tiff": TiffImagePlugin.TiffImageFile,
    "image/webp": WebPImagePlugin.WebPImageFile,
}
_PNG_END = b"\x00\x00\x00\x00IEND\xaeB`\x82"
MAX_FRAMES = 1000


def verify_image(file: BinaryIO, limits: ImageLimits) -> VerifiedImage | RejectedImage:
    """Decode one open file (seekable, at any position) within the limits."""
    size = file.seek(0, io.SEEK_END)
    if size > limits.max_bytes:
        return RejectedImage("image_too_large")
    file.seek(0)
    data = file.read(limits.max_bytes)
    media_type = sniff_image(data)
    if media_type is None:
        return RejectedImage("image_not_an_image")
    decoder = DECODERS.get(media_type)
    if media_type not in limits.media_types or decoder is None:
        return RejectedImage("image_type_not_allowed")
    try:
        # Its decoder takes memory for the whole canvas before it tells the size.
        if media_type == "image/webp" and _webp_pixels(data) > limits.max_pixels:
            raise _TooManyPixels
        dimensions = _decode(decoder, data, limits.max_pixels)
    except _TooManyPixels:
        return RejectedImage("image_too_many_pixels")
    except MemoryError:
        raise
    except (
        Exception
    ):  # decoders raise OSError, SyntaxError, ValueError, struct.error, EOFError, ...
        return RejectedImage("image_not_an_image")
    # Pillow is content once the pixels are there, and would take a file that ends early.
    if media_type == "image/png" and _PNG_END not in data:
        return RejectedImage("image_not_an_image")
    width, height = dimensions
    return VerifiedImage(media_type, width, height, len(data), hashlib.sha256(data).hexdigest())


def sniff_image(data: bytes) -> str | None:
    """The media type of an image file by its first bytes; None if it is none that is known."""
    for signature, media_type in _SIGNATURES:
        if data.startswith(signature):
            return media_type
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return None


class _TooManyPixels(Exception):
    pass


def _decode(decoder: type[ImageFile.ImageFile], data: bytes, max_pixels: int) -> tuple[int, int]:
    with decoder(io.BytesIO(data)) as image:
        dimensions = image.size
        pixels = _pixels(image)
        if pixels > max_pixels:
            raise _TooManyPixels
        image.load()
        # Fax pages come as one TIFF with many frames, and every one has to be good.
        for frame in range(1, getattr(image, "n_frames", 1)):
            if frame >= MAX_FRAMES:
                raise _TooManyPixels
            image.seek(frame)
            pixels += _pixels(image)
            if pixels > max_pixels:
                raise _TooManyPixels
            image.load()
        return dimensions


def _webp_pixels(data: bytes) -> int:
    """What the header claims: of the canvas, of a lossless or of a lossy picture."""
    match data[12:16]:
        case b"VP8X":
            width, height = (1 + int.from_bytes(data[at : at + 3], "little") for at in (24, 27))
        case b"VP8L":
            packed = int.from_bytes(data[21:25], "little")
            width, height = 1 + (packed & 0x3FFF), 1 + (packed >> 14 & 0x3FFF)
        case _:
            width, height = (
                int.from_bytes(data[at : at + 2], "little") & 0x3FFF for at in (26, 28)
            )
    return width * height


def _pixels(image: ImageFile.ImageFile) -> int:
    width, height = image.size
    if width < 1 or height < 1:
        raise ValueError("an image without pixels")
    return width * height
