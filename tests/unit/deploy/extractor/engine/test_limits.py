"""What the engine refuses, and what a problem costs."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pikepdf
import pytest

from deploy.extractor.engine import EncryptedDocument, LimitExceeded, UnreadableDocument
from tests import pdfs
from tests.unit.deploy.extractor.engine.documents import Name, document_of, run

NOT_PDFS = ["empty", "text", "png", "zip", "header_only", "html_after_header", "truncated"]


@pytest.mark.parametrize("kind", NOT_PDFS)
def test_what_is_no_pdf_is_unreadable(tmp_path: Path, kind: str) -> None:
    with pytest.raises(UnreadableDocument):
        run(pdfs.not_a_pdf(kind), tmp_path)


def test_a_document_without_pages_is_unreadable(tmp_path: Path) -> None:
    with pytest.raises(UnreadableDocument):
        run(pdfs.saved(pikepdf.new()), tmp_path)


def test_what_the_pdf_library_finds_wrong_in_itself_is_unreadable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some trees of pages break an assumption of qpdf's, which is no PdfError."""

    def fail(*_arguments: object, **_options: object) -> None:
        raise pikepdf.QpdfRuntimeError

    document = pdfs.pages(1)
    monkeypatch.setattr(pikepdf, "open", fail)
    with pytest.raises(UnreadableDocument):
        run(document, tmp_path)


def test_an_encrypted_document_needs_its_password(tmp_path: Path) -> None:
    document = pdfs.encrypted("right")
    with pytest.raises(EncryptedDocument):
        run(document, tmp_path)
    with pytest.raises(EncryptedDocument):
        run(document, tmp_path, password="wrong")
    assert len(run(document, tmp_path, password="right").images) == 1


@pytest.mark.parametrize(
    ("limit", "which"),
    [
        ({"max_pages": 2}, "pages"),
        ({"max_images": 5}, "images"),
        ({"max_total_bytes": 300}, "bytes"),
    ],
)
def test_a_document_beyond_a_limit_is_refused(
    tmp_path: Path, limit: dict[str, int], which: str
) -> None:
    with pytest.raises(LimitExceeded) as refused:
        run(pdfs.pages(3, images_per_page=2), tmp_path, **limit)
    assert refused.value.which == which


def test_limits_may_be_reached(tmp_path: Path) -> None:
    extraction = run(pdfs.pages(3, images_per_page=2), tmp_path, max_pages=3, max_images=6)
    assert len(extraction.images) == 6


def test_repeated_drawings_count_for_the_limit(tmp_path: Path) -> None:
    pdf = pikepdf.new()
    pdfs.add_page(pdf, b"/A Do " * 10, {"/A": pdfs.solid_image(pdf, (1, 2, 3))})
    with pytest.raises(LimitExceeded):
        run(pdfs.saved(pdf), tmp_path, repeat_drawings=True, max_images=9)


def test_an_image_of_too_many_pixels_is_never_decoded_and_costs_only_itself(tmp_path: Path) -> None:
    pdf = pikepdf.new()
    bomb = pdfs.solid_image(pdf, (1, 2, 3))
    bomb.Width = bomb.Height = 60_000
    pdfs.add_page(pdf, b"/A Do /B Do", {"/A": bomb, "/B": pdfs.solid_image(pdf, (9, 9, 9))})
    extraction = run(pdfs.saved(pdf), tmp_path)
    assert [(image.page, image.index) for image in extraction.images] == [(1, 2)]
    assert extraction.problems == ("too_many_pixels page=1 index=1",)


def test_the_size_inside_a_jpeg_counts_too(tmp_path: Path) -> None:
    frame = bytes.fromhex("ffc0000b08ffffffff01011100")  # 65,535 pixels square, gray
    document = document_of(
        b"\xff\xd8" + frame + b"\xff\xd9",
        Width=10,
        Height=10,
        BitsPerComponent=8,
        ColorSpace=Name.DeviceGray,
        Filter=Name.DCTDecode,
    )
    assert run(document, tmp_path).problems == ("too_many_pixels page=1 index=1",)


@pytest.mark.parametrize("size", [0, -5, 10**9])
def test_an_image_without_a_usable_size_is_reported(tmp_path: Path, size: int) -> None:
    document = document_of(b"", Width=size, Height=10, ColorSpace=Name.DeviceGray)
    assert run(document, tmp_path).problems == ("bad_dimensions page=1 index=1",)


def test_an_image_that_cannot_be_decoded_is_reported(tmp_path: Path) -> None:
    document = document_of(
        b"no JPEG", Width=9, Height=9, ColorSpace=Name.DeviceGray, Filter=Name.DCTDecode
    )
    extraction = run(document, tmp_path)
    assert extraction.images == ()
    assert extraction.problems == ("undecodable page=1 index=1",)


def test_a_range_of_pages_keeps_the_numbers_of_the_document(tmp_path: Path) -> None:
    extraction = run(pdfs.pages(5), tmp_path, page_range=(2, 3))
    assert extraction.pages == 5
    assert [image.page for image in extraction.images] == [2, 3]


def test_each_file_is_in_the_folder_and_has_the_stated_size_and_hash(tmp_path: Path) -> None:
    extraction = run(pdfs.pages(2, images_per_page=2), tmp_path)
    for image in extraction.images:
        data = image.file.read_bytes()
        assert image.file.parent == tmp_path / "images"
        assert (image.bytes, image.sha256) == (len(data), hashlib.sha256(data).hexdigest())
        assert (image.width, image.height) == (pdfs.IMAGE_SIDE_PIXELS, pdfs.IMAGE_SIDE_PIXELS)


def test_the_same_document_gives_the_same_files(tmp_path: Path) -> None:
    hashes = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        folder.mkdir()
        extraction = run(pdfs.pages(3, images_per_page=3), folder)
        hashes.append([image.sha256 for image in extraction.images])
    assert hashes[0] == hashes[1]
