import hashlib
import io
from typing import Any, get_args

import pytest
from PIL import Image
from pydantic import ValidationError

from consumers.extraction.documents.images import DECODERS, verify_image
from consumers.extraction.documents.model import ImageLimits, RejectedImage, VerifiedImage
from schemas.identity import IMAGE_EXTENSIONS
from schemas.policy import ImageType, Limits
from tests.pdfs import colour_of

LIMITS = ImageLimits(media_types=frozenset(DECODERS))


def picture(size: tuple[int, int] = (60, 40)) -> Image.Image:
    image = Image.linear_gradient("L").resize(size).convert("RGB")
    image.putpixel((0, 0), colour_of(1, 1))
    return image


def encoded(kind: str, image: Image.Image | None = None, **options: object) -> bytes:
    buffer = io.BytesIO()
    (image or picture()).save(buffer, kind, **options)
    return buffer.getvalue()


def verify(data: bytes, limits: ImageLimits = LIMITS) -> VerifiedImage | RejectedImage:
    return verify_image(io.BytesIO(data), limits)


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (encoded("PNG"), "image/png"),
        (encoded("JPEG"), "image/jpeg"),
        (encoded("JPEG", picture().convert("CMYK")), "image/jpeg"),
        (encoded("JPEG2000"), "image/jp2"),
        (encoded("JPEG2000", no_jp2=True), "image/j2c"),
        (encoded("TIFF"), "image/tiff"),
        (encoded("WEBP"), "image/webp"),
        (encoded("WEBP", lossless=True), "image/webp"),
        (encoded("WEBP", picture().convert("RGBA")), "image/webp"),
        (encoded("TIFF", picture().convert("1"), compression="group4"), "image/tiff"),
    ],
    ids=[
        *("png", "jpeg", "cmyk jpeg", "jp2", "j2c", "tiff"),
        *("webp", "lossless webp", "webp with alpha", "fax tiff"),
    ],
)
def test_an_image_is_described_by_its_content(data: bytes, media_type: str) -> None:
    assert verify(data) == VerifiedImage(
        media_type, 60, 40, len(data), hashlib.sha256(data).hexdigest()
    )


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "JPEG2000", "TIFF", "WEBP"])
@pytest.mark.parametrize("missing", [8, 64, 400])
def test_an_image_that_ends_early_is_none(kind: str, missing: int) -> None:
    noisy = Image.effect_noise((80, 80), 90).convert("RGB")
    assert verify(encoded(kind, noisy)[:-missing]) == RejectedImage("image_not_an_image")


def test_a_png_without_its_end_is_refused_though_its_pixels_are_there() -> None:
    assert verify(encoded("PNG")[:-12]) == RejectedImage("image_not_an_image")


def test_damaged_pixel_data_is_refused() -> None:
    data = bytearray(encoded("PNG", Image.effect_noise((80, 80), 90)))
    data[len(data) // 2] ^= 0xFF
    assert verify(bytes(data)) == RejectedImage("image_not_an_image")


@pytest.mark.parametrize(
    "data", [b"", b"<html>not found</html>", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"]
)
def test_what_does_not_decode_is_no_image(data: bytes) -> None:
    assert verify(data) == RejectedImage("image_not_an_image")


@pytest.mark.parametrize("kind", ["GIF", "BMP"])
def test_an_image_of_another_type_is_refused_as_such(kind: str) -> None:
    assert verify(encoded(kind)) == RejectedImage("image_type_not_allowed")


def test_the_allowed_types_are_the_callers() -> None:
    only_png = ImageLimits(media_types=frozenset({"image/png"}))
    assert verify(encoded("JPEG"), only_png) == RejectedImage("image_type_not_allowed")
    assert isinstance(verify(encoded("PNG"), only_png), VerifiedImage)


def test_too_many_bytes_are_refused() -> None:
    data = encoded("PNG")
    assert verify(data, ImageLimits(max_bytes=len(data) - 1)) == RejectedImage("image_too_large")
    assert isinstance(verify(data, ImageLimits(max_bytes=len(data))), VerifiedImage)


def test_too_many_pixels_are_refused() -> None:
    data = encoded("PNG")
    assert verify(data, ImageLimits(max_pixels=2399)) == RejectedImage("image_too_many_pixels")
    assert isinstance(verify(data, ImageLimits(max_pixels=2400)), VerifiedImage)


def test_a_bomb_is_refused_by_its_header_before_a_pixel_is_decoded() -> None:
    data = bytearray(encoded("JPEG"))
    frame = data.index(b"\xff\xc0")
    data[frame + 5 : frame + 9] = b"\xff\xdc\xff\xdc"  # 65,500 by 65,500 pixels
    assert verify(bytes(data)) == RejectedImage("image_too_many_pixels")


@pytest.mark.parametrize(
    ("options", "chunk", "at", "claimed"),
    [
        ({}, b"VP8 ", 26, b"\xff\x3f\xff\x3f"),
        ({"lossless": True}, b"VP8L", 21, b"\xff\xff\xff\x0f"),
        ({"exif": b"x"}, b"VP8X", 24, b"\xfe\x3f\x00\xfe\x3f\x00"),
    ],
    ids=["lossy", "lossless", "extended"],
)
def test_a_webp_bomb_is_refused_before_its_canvas_is_made(
    options: dict[str, Any], chunk: bytes, at: int, claimed: bytes
) -> None:
    data = bytearray(encoded("WEBP", **options))
    assert data[12:16] == chunk
    exactly = ImageLimits(max_pixels=2400, media_types=LIMITS.media_types)
    assert isinstance(verify(bytes(data), exactly), VerifiedImage)
    data[at : at + len(claimed)] = claimed
    assert verify(bytes(data)) == RejectedImage("image_too_many_pixels")


def test_each_type_that_a_policy_may_allow_has_a_decoder_and_an_extension() -> None:
    assert set(get_args(ImageType)) == set(DECODERS)
    assert set(DECODERS) <= set(IMAGE_EXTENSIONS)
    assert frozenset(Limits().allowed_image_types) == ImageLimits().media_types


def test_a_policy_that_allows_what_nothing_can_decode_is_refused() -> None:
    with pytest.raises(ValidationError):
        Limits.model_validate({"allowed_image_types": ["image/gif"]})


def test_the_pixels_of_all_frames_count() -> None:
    frames = [picture() for _ in range(3)]
    data = encoded("TIFF", frames[0], save_all=True, append_images=frames[1:])
    assert verify(data, ImageLimits(max_pixels=7199)) == RejectedImage("image_too_many_pixels")
    assert isinstance(verify(data, ImageLimits(max_pixels=7200)), VerifiedImage)
