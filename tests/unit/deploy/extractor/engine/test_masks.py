"""What becomes of images with a soft mask, a stencil mask or a colour key."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pikepdf
import pytest

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


def test_a_mask_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    document = masked(soft_mask(b"no JPEG", Filter=Name.DCTDecode))
    assert (pixels(run(document, tmp_path)) == np.asarray(gradient())).all()


def test_a_colour_that_was_blended_in_is_taken_out(tmp_path: Path) -> None:
    half = soft_mask(b"\x80" * len(ALPHA), Matte=pikepdf.Array([0, 0, 0]))
    blended = np.asarray(gradient().point(lambda level: level // 2)).tobytes()
    document = document_of(blended, half, Width=32, Height=16, **RGB)
    found = pixels(run(document, tmp_path))[:, :, :3].astype(int)
    assert np.abs(found - np.asarray(gradient())).mean() <= 2


def test_a_stencil_mask_hides_its_ones(tmp_path: Path) -> None:
    def mask(pdf: pikepdf.Pdf) -> dict[str, Any]:
        stencil = pdf.make_stream(
            b"\x00\xff\x00\xff" * 16, Width=32, Height=16, ImageMask=True, BitsPerComponent=1
        )
        stencil.Subtype = Name.Image
        return {"Mask": stencil}

    found = pixels(run(masked(mask), tmp_path))
    assert found[0, :, 3].tolist() == ([255] * 8 + [0] * 8) * 2


def test_a_colour_key_hides_its_colours(tmp_path: Path) -> None:
    document = document_of(b"\x0a\x80", Width=2, Height=1, Mask=pikepdf.Array([8, 12]), **GRAY)
    found = picture(run(document, tmp_path)).convert("RGBA")
    assert [found.getpixel((x, 0))[3] for x in (0, 1)] == [0, 255]  # type: ignore[index]


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
