import io
from typing import BinaryIO

import pikepdf
import pytest

from consumers.extraction.documents.opening import hand_inherited_down, open_for_copying
from tests import documents_pdfs, pdfs
from tests.documents_pdfs import in_a_file


def test_pages_are_copied_from_a_file_that_was_closed_meanwhile() -> None:
    content = pdfs.pages(3)
    with in_a_file(content) as file:
        source = open_for_copying(file)
    copy, out = pikepdf.new(), io.BytesIO()
    copy.pages.extend(source.pages)
    source.close()
    copy.save(out)
    assert copy.get_warnings() == []
    assert documents_pdfs.image_colours(out.getvalue()) == documents_pdfs.image_colours(content)


def keys_of_pages(pdf: pikepdf.Pdf) -> list[set[str]]:
    return [set(page.obj.keys()) for page in pdf.pages]


def test_pages_have_what_they_inherit_once_it_is_handed_down() -> None:
    file = in_a_file(documents_pdfs.inherited_attributes())
    pdf, handed_down = open_for_copying(file), pikepdf.open(file)
    assert keys_of_pages(pdf) != keys_of_pages(handed_down)
    hand_inherited_down(pdf)
    assert keys_of_pages(pdf) == keys_of_pages(handed_down)
    assert [page.mediabox for page in pdf.pages] == [page.mediabox for page in handed_down.pages]


def test_objects_that_no_page_needs_are_not_read() -> None:
    content = documents_pdfs.raw_pdf(
        {
            1: b"<</Type/Catalog/Pages 2 0 R>>",
            2: b"<</Type/Pages/Count 1/Kids[3 0 R]>>",
            3: b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Resources<<>>>>",
            4: b"<</Damaged [>>",
        }
    )
    pdf = open_for_copying(in_a_file(content))
    hand_inherited_down(pdf)
    assert len(pdf.pages) == 1
    assert pdf.get_warnings() == []


def opened(file: BinaryIO, password: str | None) -> int:
    with open_for_copying(file, password) as pdf:
        return len(pdf.pages)


def encrypted(password: str) -> bytes:
    pdf, out = pikepdf.open(io.BytesIO(pdfs.pages(1))), io.BytesIO()
    pdf.save(out, encryption=pikepdf.Encryption(user=password, owner=password, R=6))
    return out.getvalue()


@pytest.mark.parametrize("password", ["secret", "-x", 'a"b\\c', "geheim \N{SNOWMAN} \U0001f600"])
def test_a_file_opens_with_its_password_only(password: str) -> None:
    file = in_a_file(encrypted(password))
    assert opened(file, password) == 1
    for wrong in (None, "", "secret "):
        with pytest.raises(pikepdf.PasswordError):
            opened(file, wrong)


def test_a_password_that_is_not_needed_does_no_harm() -> None:
    assert opened(in_a_file(pdfs.pages(2)), "secret") == 2


def test_what_is_no_pdf_is_refused_as_by_the_engine_itself() -> None:
    with pytest.raises(pikepdf.PdfError):
        opened(in_a_file(b"no PDF"), None)
