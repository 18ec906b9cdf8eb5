"""The samples of an extracted image are those that the page shows."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pikepdf
import pytest
from PIL import Image

from deploy.extractor.engine.model import BadImage
from deploy.extractor.engine.rendering import render_bilevel, render_fax
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


def size_of(image: Image.Image) -> dict[str, Any]:
    return {"Width": image.width, "Height": image.height}


def packed(image: Image.Image) -> bytes:
    """The samples of a black and white image, 1 for white."""
    return image.tobytes()


def assert_same(found: Any, expected: Image.Image, *, within: float = 0) -> None:
    wanted = np.asarray(expected.convert("L") if expected.mode == "1" else expected)
    assert found.shape == wanted.shape
    assert np.abs(found.astype(int) - wanted).mean() <= within


class TestOriginalBytes:
    @pytest.mark.parametrize("mode", ["L", "RGB"])
    def test_a_jpeg_is_given_as_it_is(self, tmp_path: Path, mode: str) -> None:
        data = jpeg_of(gradient().convert(mode))
        entries = (GRAY if mode == "L" else RGB) | size_of(gradient())
        extraction = run(document_of(data, Filter=Name.DCTDecode, **entries), tmp_path)
        assert extraction.images[0].media_type == "image/jpeg"
        assert extraction.images[0].file.read_bytes() == data

    def test_a_jpeg_inside_another_filter_is_taken_out(self, tmp_path: Path) -> None:
        data = jpeg_of(gradient())
        filters = pikepdf.Array([Name.FlateDecode, Name.DCTDecode])
        entries = RGB | size_of(gradient())
        extraction = run(document_of(zlib.compress(data), Filter=filters, **entries), tmp_path)
        assert extraction.images[0].file.read_bytes() == data

    def test_a_jpeg_that_decode_inverts_is_decoded(self, tmp_path: Path) -> None:
        page = gradient().convert("L")
        entries = GRAY | size_of(page)
        document = document_of(
            jpeg_of(page), Filter=Name.DCTDecode, Decode=pikepdf.Array([1, 0]), **entries
        )
        extraction = run(document, tmp_path)
        assert extraction.images[0].media_type == "image/png"
        assert_same(pixels(extraction), page.point(lambda level: 255 - level), within=2)

    def test_a_jpeg_whose_colour_space_says_otherwise_is_decoded(self, tmp_path: Path) -> None:
        data = jpeg_of(gradient().convert("L"))
        palette = pikepdf.Array(
            [Name.Indexed, Name.DeviceRGB, 255, pikepdf.String(b"\x07\x08\x09" * 256)]
        )
        document = document_of(
            data,
            Filter=Name.DCTDecode,
            ColorSpace=palette,
            BitsPerComponent=8,
            **size_of(gradient()),
        )
        assert (pixels(run(document, tmp_path)) == (7, 8, 9)).all()

    def test_a_cut_off_jpeg_becomes_a_whole_picture(self, tmp_path: Path) -> None:
        data = jpeg_of(gradient(640, 480))[:-2000]
        entries = RGB | size_of(gradient(640, 480))
        extraction = run(document_of(data, Filter=Name.DCTDecode, **entries), tmp_path)
        assert extraction.images[0].media_type == "image/png"
        assert picture(extraction).size == (640, 480)

    def test_a_jpeg_2000_file_is_given_as_it_is(self, tmp_path: Path) -> None:
        buffer = io.BytesIO()
        gradient().save(buffer, "JPEG2000")
        entries = RGB | size_of(gradient())
        extraction = run(document_of(buffer.getvalue(), Filter=Name.JPXDecode, **entries), tmp_path)
        assert extraction.images[0].media_type == "image/jp2"
        assert extraction.images[0].file.read_bytes() == buffer.getvalue()

    def test_a_bare_jpeg_2000_codestream_becomes_a_file(self, tmp_path: Path) -> None:
        buffer = io.BytesIO()
        gradient().save(buffer, "JPEG2000", no_jp2=True)
        assert buffer.getvalue().startswith(b"\xff\x4f\xff\x51")
        entries = RGB | size_of(gradient())
        extraction = run(document_of(buffer.getvalue(), Filter=Name.JPXDecode, **entries), tmp_path)
        assert extraction.images[0].media_type == "image/jp2"
        assert extraction.images[0].file.read_bytes().endswith(buffer.getvalue())
        assert_same(pixels(extraction), gradient(), within=1)


class TestSamples:
    def test_rgb(self, tmp_path: Path) -> None:
        document = document_of(gradient().tobytes(), **RGB, **size_of(gradient()))
        assert_same(pixels(run(document, tmp_path)), gradient())

    @pytest.mark.parametrize("bits", [1, 2, 4, 8, 16])
    def test_gray_of_every_depth(self, tmp_path: Path, bits: int) -> None:
        # Two rows of three: black, white and, with more than one bit, the level after black.
        levels = [0, (1 << bits) - 1, 1]
        row = "".join(f"{level:0{bits}b}" for level in levels)
        row = row.ljust((len(row) + 7) // 8 * 8, "0")
        data = int(row, 2).to_bytes(len(row) // 8, "big") * 2
        document = document_of(
            data, Width=3, Height=2, BitsPerComponent=bits, ColorSpace=Name.DeviceGray
        )
        found = picture(run(document, tmp_path))
        samples = np.asarray(found).astype(float) / (65535 if bits == 16 else 255)
        if found.mode == "1":
            samples = np.asarray(found).astype(float)
        assert samples[1] == pytest.approx([0, 1, 1 / ((1 << bits) - 1)], abs=0.001)

    @pytest.mark.parametrize("bits", [1, 4, 8])
    def test_a_palette(self, tmp_path: Path, bits: int) -> None:
        colours = bytes((200, 10, 20, 5, 150, 250))
        palette = pikepdf.Array([Name.Indexed, Name.DeviceRGB, 1, pikepdf.String(colours)])
        row = {1: b"\x40", 4: b"\x01", 8: b"\x00\x01"}[bits]
        document = document_of(row, Width=2, Height=1, BitsPerComponent=bits, ColorSpace=palette)
        assert pixels(run(document, tmp_path)).tolist() == [[[200, 10, 20], [5, 150, 250]]]

    def test_samples_after_the_end_of_a_palette_do_not_spoil_the_image(
        self, tmp_path: Path
    ) -> None:
        palette = pikepdf.Array([Name.Indexed, Name.DeviceRGB, 0, pikepdf.String(b"\x09\x09\x09")])
        document = document_of(
            b"\x00\xff", Width=2, Height=1, BitsPerComponent=8, ColorSpace=palette
        )
        assert pixels(run(document, tmp_path))[0, 0].tolist() == [9, 9, 9]

    def test_decode_inverts_gray(self, tmp_path: Path) -> None:
        decode = pikepdf.Array([1, 0])
        document = document_of(b"\x00\xf0", Width=2, Height=1, Decode=decode, **GRAY)
        assert pixels(run(document, tmp_path)).tolist() == [[255, 15]]

    def test_decode_narrows_a_range(self, tmp_path: Path) -> None:
        decode = pikepdf.Array([0, 0.5])
        document = document_of(b"\x00\xff", Width=2, Height=1, Decode=decode, **GRAY)
        found = pixels(run(document, tmp_path)).reshape(2, -1)[:, 0]
        assert found[0] == 0
        assert found[1] == pytest.approx(128, abs=1)

    def test_samples_that_end_early_are_filled_up(self, tmp_path: Path) -> None:
        data = gradient().tobytes()
        document = document_of(data[: len(data) // 2], **RGB, **size_of(gradient()))
        found = pixels(run(document, tmp_path))
        assert_same(found[:8], gradient().crop((0, 0, 32, 8)))

    @pytest.mark.parametrize("name", ["/RunLengthDecode", "/ASCIIHexDecode"])
    def test_filters_that_are_rare_in_images(self, tmp_path: Path, name: str) -> None:
        data = b"\x01\x0a\xff\x80" if name == "/RunLengthDecode" else b"0AFF>"
        document = document_of(data, Width=2, Height=1, Filter=Name(name), **GRAY)
        assert pixels(run(document, tmp_path)).tolist() == [[10, 255]]


class TestColours:
    def test_cmyk_samples(self, tmp_path: Path) -> None:
        inks = bytes((0, 0, 0, 0, 255, 0, 0, 0, 0, 0, 0, 255))
        document = document_of(
            inks, Width=3, Height=1, BitsPerComponent=8, ColorSpace=Name.DeviceCMYK
        )
        paper, cyan, black = pixels(run(document, tmp_path))[0].astype(int)
        assert paper.min() > 250
        assert cyan[0] < 60 < cyan[1] < cyan[2]
        assert black.max() < 60

    def test_a_cmyk_jpeg_with_inverted_inks_as_adobe_writes_it(self, tmp_path: Path) -> None:
        cyan = Image.new("CMYK", (16, 16), (255, 0, 0, 0))
        data = jpeg_of(cyan)  # Pillow writes the Adobe marker and inverts the inks
        assert b"Adobe" in data
        document = document_of(
            data,
            Filter=Name.DCTDecode,
            ColorSpace=Name.DeviceCMYK,
            BitsPerComponent=8,
            Decode=pikepdf.Array([1, 0] * 4),
            **size_of(cyan),
        )
        extraction = run(document, tmp_path)
        assert extraction.images[0].media_type == "image/png"
        red, green, blue = pixels(extraction)[8, 8].astype(int)
        assert red < 60 < green < blue

    @pytest.mark.parametrize("family", ["/Separation", "/DeviceN"])
    def test_spot_colours_go_through_their_function(self, tmp_path: Path, family: str) -> None:
        def space(pdf: pikepdf.Pdf) -> dict[str, Any]:
            names: Any = Name.Spot if family == "/Separation" else pikepdf.Array([Name.Spot])
            tint = pikepdf.Dictionary(
                FunctionType=2, Domain=[0, 1], C0=[1, 1, 1], C1=[1, 0, 0], N=1
            )
            return {"ColorSpace": pikepdf.Array([Name(family), names, Name.DeviceRGB, tint])}

        document = document_of(b"\x00\xff", space, Width=2, Height=1, BitsPerComponent=8)
        assert pixels(run(document, tmp_path)).tolist() == [[[255, 255, 255], [255, 0, 0]]]

    def test_lab(self, tmp_path: Path) -> None:
        lab = pikepdf.Array(
            [
                Name.Lab,
                pikepdf.Dictionary(WhitePoint=[0.9642, 1, 0.8249], Range=[-128, 127, -128, 127]),
            ]
        )
        document = document_of(
            bytes((0, 128, 128, 255, 128, 128)),
            Width=2,
            Height=1,
            BitsPerComponent=8,
            ColorSpace=lab,
        )
        black, white = pixels(run(document, tmp_path))[0].astype(int)
        assert black.max() < 10
        assert white.min() > 235

    def test_a_profile_that_is_not_srgb_is_applied(self, tmp_path: Path) -> None:
        def space(pdf: pikepdf.Pdf) -> dict[str, Any]:
            profile = pdf.make_stream(gray_profile(gamma=1.0), N=1)
            return {"ColorSpace": pikepdf.Array([Name.ICCBased, profile])}

        document = document_of(b"\x00\x40\xff", space, Width=3, Height=1, BitsPerComponent=8)
        black, dark, white = pixels(run(document, tmp_path)).reshape(3, -1)[:, 0].tolist()
        # A quarter of the light is far brighter than a quarter of the sRGB scale.
        assert (black, white) == (0, 255)
        assert dark == pytest.approx(137, abs=3)

    def test_a_profile_like_srgb_leaves_a_jpeg_alone(self, tmp_path: Path) -> None:
        def space(pdf: pikepdf.Pdf) -> dict[str, Any]:
            profile = pdf.make_stream(gray_profile(gamma=2.2), N=1)
            return {"ColorSpace": pikepdf.Array([Name.ICCBased, profile])}

        data = jpeg_of(gradient().convert("L"))
        document = document_of(
            data, space, Filter=Name.DCTDecode, BitsPerComponent=8, **size_of(gradient())
        )
        assert run(document, tmp_path).images[0].file.read_bytes() == data


class TestBlackAndWhite:
    def test_a_stencil_is_ink_on_paper(self, tmp_path: Path) -> None:
        page = bars()
        document = document_of(packed(page), ImageMask=True, BitsPerComponent=1, **size_of(page))
        assert_same(pixels(run(document, tmp_path)), page)

    def test_a_stencil_that_paints_ones_is_ink_on_paper_too(self, tmp_path: Path) -> None:
        page = bars()
        inverted = bytes(~byte & 255 for byte in packed(page))
        document = document_of(
            inverted,
            ImageMask=True,
            BitsPerComponent=1,
            Decode=pikepdf.Array([1, 0]),
            **size_of(page),
        )
        assert_same(pixels(run(document, tmp_path)), page)

    @pytest.mark.parametrize("is_stencil", [False, True])
    @pytest.mark.parametrize("black_is_1", [False, True])
    @pytest.mark.parametrize("decode", [None, [1, 0]])
    @pytest.mark.parametrize("width", [64, 8192])
    def test_a_fax_page(
        self,
        tmp_path: Path,
        is_stencil: bool,
        black_is_1: bool,
        decode: list[int] | None,
        width: int,
    ) -> None:
        page = bars(width, 40 if width == 64 else 4096)
        kind: dict[str, Any] = (
            {"ImageMask": True} if is_stencil else {"ColorSpace": Name.DeviceGray}
        )
        if decode:
            kind["Decode"] = pikepdf.Array(decode)
        document = document_of(
            group4_of(page),
            Filter=Name.CCITTFaxDecode,
            DecodeParms=pikepdf.Dictionary(K=-1, Columns=page.width, BlackIs1=black_is_1),
            BitsPerComponent=1,
            **kind,
            **size_of(page),
        )
        extraction = run(document, tmp_path)
        is_large = width == 8192
        assert extraction.images[0].media_type == ("image/tiff" if is_large else "image/png")
        shown = page if black_is_1 == bool(decode) else page.point(lambda level: 255 - level)
        assert_same(pixels(extraction), shown)

    @pytest.mark.parametrize("is_stencil", [False, True])
    @pytest.mark.parametrize("inverted", [False, True])
    @pytest.mark.parametrize("width", [3, 61, 64])
    def test_a_fax_is_packed_as_its_pixels_would_be(
        self, is_stencil: bool, inverted: bool, width: int
    ) -> None:
        """To the last bit, or equal pages would be files of other checksums."""
        page = bars(64).crop((2, 0, 2 + width, 40))
        kind: dict[str, Any] = (
            {"ImageMask": True} if is_stencil else {"ColorSpace": Name.DeviceGray}
        )
        with pikepdf.new() as pdf:
            image = pdf.make_stream(
                group4_of(page),
                Subtype=Name.Image,
                Filter=Name.CCITTFaxDecode,
                DecodeParms=pikepdf.Dictionary(K=-1, Columns=width),
                BitsPerComponent=1,
                **kind,
                **size_of(page),
            )
            expected = np.packbits(render_bilevel(pdf, image, inverted=inverted), axis=1)
            assert expected.any()
            assert (render_fax(pdf, image, inverted=inverted) == expected).all()

    def test_only_a_fax_is_given_packed(self) -> None:
        with pikepdf.new() as pdf:
            gray = {"ColorSpace": Name.DeviceGray, "BitsPerComponent": 8}
            image = pdf.make_stream(bytes(4), Subtype=Name.Image, Width=2, Height=2, **gray)
            with pytest.raises(BadImage):
                render_fax(pdf, image, inverted=False)

    def test_jbig2_needs_no_program(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", "")
        page = bars()
        document = document_of(
            jbig2_of(page),
            Filter=Name.JBIG2Decode,
            BitsPerComponent=1,
            ColorSpace=Name.DeviceGray,
            **size_of(page),
        )
        assert_same(pixels(run(document, tmp_path)), page)


def jbig2_of(page: Image.Image) -> bytes:
    """A JBIG2 page of one generic region in the MMR coding, which is that of Group 4 faxes."""
    region = struct.pack(">IIIIB", page.width, page.height, 0, 0, 0)  # at the origin, OR
    region += b"\x01" + group4_of(page)
    information = struct.pack(">IIIIBH", page.width, page.height, 0, 0, 0, 0)
    return segment(0, 48, information) + segment(1, 38, region)


def segment(number: int, kind: int, data: bytes) -> bytes:
    return struct.pack(">IBBBI", number, kind, 0, 1, len(data)) + data


def gray_profile(gamma: float) -> bytes:
    """An ICC profile of gray samples with this gamma (ICC.1:2010)."""
    white = b"XYZ \0\0\0\0" + struct.pack(">3i", 63190, 65536, 54061)
    curve = b"curv\0\0\0\0" + struct.pack(">IHH", 1, round(gamma * 256), 0)
    tags = [(b"wtpt", white), (b"kTRC", curve)]
    table = struct.pack(">I", len(tags))
    body = b""
    for name, content in tags:
        table += struct.pack(">4sII", name, 128 + 4 + 12 * len(tags) + len(body), len(content))
        body += content
    header = struct.pack(
        ">I4sI4s4s4s12s4s4s24s3i48s",
        128 + len(table) + len(body), b"\0" * 4, 0x02100000, b"mntr", b"GRAY", b"XYZ ",
        b"\0" * 12, b"acsp", b"\0" * 4, b"\0" * 24, 63190, 65536, 54061, b"\0" * 48,
    )  # fmt: skip
    return header + table + body
