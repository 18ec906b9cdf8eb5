"""What becomes of images with a soft mask, a stencil mask or a colour key."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pikepdf
import pytest
from PIL import Image

from tests.unit.deploy.extractor.engine.documents import (
    Name,
    bars,
    document_of,
    gradient,
    group4_of,
    jpeg_of,
    picture,
    pixels,
    run,
)
from tests.unit.deploy.extractor.engine.test_pixels import jbig2_of

RGB: dict[str, Any] = {"ColorSpace": Name.DeviceRGB, "BitsPerComponent": 8}
GRAY: dict[str, Any] = {"ColorSpace": Name.DeviceGray, "BitsPerComponent": 8}
ALPHA = bytes(range(0, 256, 2)) * 4  # 32 x 16


def soft_mask(
    data: bytes = ALPHA, width: int = 32, height: int = 16, **entries: Any
) -> Callable[[pikepdf.Pdf], dict[str, Any]]:
    return lambda pdf: {
        "SMask": pdf.make_stream(
            data,
            Type=Name.XObject,
            Subtype=Name.Image,
            Width=width,
            Height=height,
            **GRAY,
            **entries,
        )
    }


def masked(make: Callable[[pikepdf.Pdf], dict[str, Any]], **entries: Any) -> bytes:
    return document_of(gradient().tobytes(), make, Width=32, Height=16, **RGB, **entries)


def masked_jpeg(make: Callable[[pikepdf.Pdf], dict[str, Any]]) -> bytes:
    data = jpeg_of(gradient())
    return document_of(data, make, Width=32, Height=16, Filter=Name.DCTDecode, **RGB)


def test_a_soft_mask_is_the_alpha_channel_and_the_colours_stay(tmp_path: Path) -> None:
    extraction = run(masked(soft_mask()), tmp_path)
    assert len(extraction.images) == 1
    assert picture(extraction).mode == "RGBA"
    found = pixels(extraction)
    assert (found[:, :, :3] == np.asarray(gradient())).all()
    assert found[:, :, 3].tobytes() == ALPHA


def test_a_gray_image_with_a_soft_mask_stays_gray(tmp_path: Path) -> None:
    gray = gradient().convert("L")
    document = document_of(gray.tobytes(), soft_mask(), Width=32, Height=16, **GRAY)
    found = picture(run(document, tmp_path))
    assert found.mode == "LA"
    assert (np.asarray(found)[:, :, 0] == np.asarray(gray)).all()


def test_a_mask_can_be_an_image_of_its_own(tmp_path: Path) -> None:
    extraction = run(masked_jpeg(soft_mask()), tmp_path, soft_masks="separate")
    assert [(image.index, image.is_mask) for image in extraction.images] == [(1, False), (2, True)]
    assert extraction.images[0].media_type == "image/jpeg"
    assert pixels(extraction, 1).tobytes() == ALPHA


def test_a_mask_can_be_left_out(tmp_path: Path) -> None:
    extraction = run(masked_jpeg(soft_mask()), tmp_path, soft_masks="ignore")
    assert [image.media_type for image in extraction.images] == ["image/jpeg"]


def test_a_jpeg_under_a_mask_that_hides_nothing_keeps_its_bytes(tmp_path: Path) -> None:
    extraction = run(masked_jpeg(soft_mask(b"\xff" * len(ALPHA))), tmp_path)
    assert extraction.images[0].media_type == "image/jpeg"


def test_a_mask_finer_than_its_image_keeps_its_detail(tmp_path: Path) -> None:
    fine = bytes(index % 251 for index in range(64 * 48))
    found = pixels(run(masked(soft_mask(fine, 64, 48)), tmp_path))
    assert found.shape == (48, 64, 4)
    assert found[:, :, 3].tobytes() == fine
    assert (found[::3, ::2, :3] == np.asarray(gradient())).all()


def test_a_mask_coarser_than_its_image_is_spread(tmp_path: Path) -> None:
    found = pixels(run(masked(soft_mask(b"\x00\xff", 2, 1)), tmp_path))
    assert found.shape == (16, 32, 4)
    assert found[0, 15:17, 3].tolist() == [0, 255]


@pytest.mark.parametrize("soft_masks", ["composite", "separate"])
def test_a_mask_that_cannot_be_read_is_left_out(tmp_path: Path, soft_masks: str) -> None:
    document = masked(soft_mask(b"no JPEG", Filter=Name.DCTDecode))
    extraction = run(document, tmp_path, soft_masks=soft_masks)
    assert (pixels(extraction) == np.asarray(gradient())).all()
    assert (len(extraction.images), extraction.problems) == (1, ())


def test_a_colour_that_was_blended_in_is_taken_out(tmp_path: Path) -> None:
    half = soft_mask(b"\x80" * len(ALPHA), Matte=pikepdf.Array([0, 0, 0]))
    blended = np.asarray(gradient().point(lambda level: level // 2)).tobytes()
    document = document_of(blended, half, Width=32, Height=16, **RGB)
    found = pixels(run(document, tmp_path))[:, :, :3].astype(int)
    assert np.abs(found - np.asarray(gradient())).mean() <= 2


def test_it_is_taken_out_of_a_gray_image_too(tmp_path: Path) -> None:
    half = soft_mask(b"\x80" * len(ALPHA), Matte=pikepdf.Array([0]))
    gray = gradient().convert("L")
    blended = gray.point(lambda level: level // 2).tobytes()
    found = pixels(run(document_of(blended, half, Width=32, Height=16, **GRAY), tmp_path))
    assert found[:, :, 1].min() == found[:, :, 1].max() == 0x80
    assert np.abs(found[:, :, 0].astype(int) - np.asarray(gray)).mean() <= 2


def test_a_stencil_mask_hides_its_ones(tmp_path: Path) -> None:
    def mask(pdf: pikepdf.Pdf) -> dict[str, Any]:
        stencil = pdf.make_stream(
            b"\x00\xff\x00\xff" * 16, Width=32, Height=16, ImageMask=True, BitsPerComponent=1
        )
        stencil.Subtype = Name.Image
        return {"Mask": stencil}

    found = pixels(run(masked(mask), tmp_path))
    assert found[0, :, 3].tolist() == ([255] * 8 + [0] * 8) * 2


def palette(*colours: int) -> pikepdf.Array:
    last = len(colours) // 3 - 1
    return pikepdf.Array([Name.Indexed, Name.DeviceRGB, last, pikepdf.String(bytes(colours))])


def keyed(colour_space: Any, bits: int, key: list[int], **entries: Any) -> dict[str, Any]:
    """A row of two pixels, of which the key is to hide the first."""
    about = {"ColorSpace": colour_space, "BitsPerComponent": bits, "Mask": pikepdf.Array(key)}
    return {"Width": 2, "Height": 1, **about, **entries}


KEYED = {
    "gray": (b"\x0a\x80", keyed(Name.DeviceGray, 8, [8, 12])),
    "gray, deep": (b"\x0a\x01\x0a\x02", keyed(Name.DeviceGray, 16, [0x0A01, 0x0A01])),
    "gray, 4 bits": (b"\x37", keyed(Name.DeviceGray, 4, [3, 3])),
    "gray, inverted": (
        b"\x0a\x80",
        keyed(Name.DeviceGray, 8, [8, 12], Decode=pikepdf.Array([1, 0])),
    ),
    "rgb": (b"\x01\x02\x03\x01\x02\x04", keyed(Name.DeviceRGB, 8, [1, 1, 2, 2, 3, 3])),
    "cmyk": (b"\0\0\0\0\0\0\0\xff", keyed(Name.DeviceCMYK, 8, [0, 0, 0, 0, 0, 0, 0, 9])),
    "palette": (b"\x01\x00", keyed(palette(9, 0, 0, 0, 9, 0), 8, [1, 1])),
    "palette, 1 bit": (b"\x40", keyed(palette(9, 0, 0, 0, 9, 0), 1, [0, 0])),
}


@pytest.mark.parametrize("kind", KEYED)
def test_a_colour_key_hides_its_colours(tmp_path: Path, kind: str) -> None:
    data, entries = KEYED[kind]
    extraction = run(document_of(data, **entries), tmp_path)
    found = picture(extraction).convert("RGBA")
    assert [found.getpixel((x, 0))[3] for x in (0, 1)] == [0, 255]  # type: ignore[index]


def test_the_mask_of_a_colour_key_can_be_an_image_of_its_own(tmp_path: Path) -> None:
    data, entries = KEYED["gray"]
    extraction = run(document_of(data, **entries), tmp_path, soft_masks="separate")
    assert [image.is_mask for image in extraction.images] == [False, True]
    assert pixels(extraction, 0).tolist() == [[0x0A, 0x80]]
    assert pixels(extraction, 1).tolist() == [[0, 255]]


def jpeg_2000_with_alpha(mode: str) -> tuple[Image.Image, bytes]:
    """A picture whose file says how opaque it is, and the document of it."""
    image = gradient().convert(mode)
    image.putalpha(Image.frombytes("L", (32, 16), ALPHA))
    buffer = io.BytesIO()
    image.save(buffer, "JPEG2000", irreversible=False)
    return image, document_of(
        buffer.getvalue(), Width=32, Height=16, Filter=Name.JPXDecode, SMaskInData=1
    )


@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_the_alpha_channel_of_a_jpeg_2000_file_is_a_mask(tmp_path: Path, mode: str) -> None:
    image, document = jpeg_2000_with_alpha(mode)
    assert (pixels(run(document, tmp_path)) == np.asarray(image)).all()
    apart = run(document, tmp_path, soft_masks="separate")
    assert [found.is_mask for found in apart.images] == [False, True]
    assert (pixels(apart, 0) == np.asarray(image.convert(mode))).all()
    assert pixels(apart, 1).tobytes() == ALPHA


@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_colours_that_a_jpeg_2000_file_blended_with_black_are_what_they_were(
    tmp_path: Path, mode: str
) -> None:
    colours = gradient().convert(mode)
    blended = colours.point(lambda level: level // 2)
    blended.putalpha(128)
    buffer = io.BytesIO()
    blended.save(buffer, "JPEG2000", irreversible=False)
    document = document_of(
        buffer.getvalue(), Width=32, Height=16, Filter=Name.JPXDecode, SMaskInData=2
    )
    found = pixels(run(document, tmp_path))
    assert found[:, :, -1].min() == found[:, :, -1].max() == 128
    shown = np.atleast_3d(found[:, :, :-1]).astype(int)
    assert np.abs(shown - np.atleast_3d(np.asarray(colours))).max() <= 2


def test_a_large_picture_has_no_seams(tmp_path: Path) -> None:
    """Large ones are put together block by block; here no block ends where a row is repeated."""
    width, height = 701, 503
    fine = np.arange(width * height, dtype=np.uint32).astype(np.uint8) // 2
    found = pixels(run(masked(soft_mask(fine.tobytes(), width, height)), tmp_path))
    rows, columns = np.arange(height) * 16 // height, np.arange(width) * 32 // width
    assert (found[:, :, :3] == np.asarray(gradient())[rows][:, columns]).all()
    assert found[:, :, 3].tobytes() == fine.tobytes()


@pytest.mark.parametrize("inverts", [False, True])
def test_a_mask_may_be_coded_as_a_fax(tmp_path: Path, inverts: bool) -> None:
    def mask(pdf: pikepdf.Pdf) -> dict[str, Any]:
        page = bars()
        entries = {"Decode": pikepdf.Array([1, 0])} if inverts else {}
        fax = pdf.make_stream(
            group4_of(page),
            Subtype=Name.Image,
            Width=page.width,
            Height=page.height,
            BitsPerComponent=1,
            ColorSpace=Name.DeviceGray,
            Filter=Name.CCITTFaxDecode,
            DecodeParms=pikepdf.Dictionary(K=-1, Columns=page.width, Rows=page.height),
            **entries,
        )
        return {"SMask": fax}

    alpha = pixels(run(masked(mask), tmp_path))[:, :, 3]
    expected = np.asarray(bars().convert("L"))
    assert (alpha == (255 - expected if inverts else expected)).all()


@pytest.mark.parametrize("coding", ["fax", "jbig2", "raw"])
@pytest.mark.parametrize("has_palette", [False, True])
@pytest.mark.parametrize("hidden", [0, 1])
def test_a_colour_key_hides_one_of_two_colours_and_the_colours_stay(
    tmp_path: Path, coding: str, has_palette: bool, hidden: int
) -> None:
    page = bars()
    data = page.tobytes()
    entries: dict[str, Any] = {}
    if coding == "fax":
        data, entries["Filter"] = group4_of(page), Name.CCITTFaxDecode
        entries["DecodeParms"] = pikepdf.Dictionary(K=-1, Columns=page.width)
    elif coding == "jbig2":
        data, entries["Filter"] = jbig2_of(page), Name.JBIG2Decode
    space = palette(255, 0, 0, 0, 0, 255) if has_palette else Name.DeviceGray
    document = document_of(
        data,
        Width=page.width,
        Height=page.height,
        ColorSpace=space,
        BitsPerComponent=1,
        Mask=pikepdf.Array([hidden, hidden]),
        **entries,
    )
    found, samples = pixels(run(document, tmp_path)), np.asarray(page).astype(int)
    assert (found[:, :, -1] == np.where(samples == hidden, 0, 255)).all()
    two = np.array([[255, 0, 0], [0, 0, 255]]) if has_palette else np.array([[0], [255]])
    assert (found[:, :, :-1] == two[samples]).all()
