import io
from dataclasses import replace
from typing import Any

import pytest

from consumers.extraction.documents import signature
from consumers.extraction.documents.inspect import inspect_pdf
from consumers.extraction.documents.model import DocumentRejected, InspectionLimits
from consumers.extraction.documents.signature import header_offset, libmagic_verdict
from tests import pdfs


def reason_of(head: bytes, *, accept_offset: bool = True) -> str:
    with pytest.raises(DocumentRejected) as rejected:
        header_offset(head, accept_offset=accept_offset)
    return rejected.value.reason


def test_a_header_at_the_first_byte_has_offset_zero() -> None:
    assert header_offset(b"%PDF-1.7\n", accept_offset=False) == 0


@pytest.mark.parametrize(
    "before",
    [
        b"\n",
        b"\r\n",
        b" ",
        b"\xef\xbb\xbf",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/pdf\r\n\r\n",
        b"\x1b%-12345X@PJL ENTER LANGUAGE=PDF\r\n",
        b"\0" * 1019,
    ],
)
def test_bytes_before_the_header_are_accepted_and_measured(before: bytes) -> None:
    assert header_offset(before + b"%PDF-1.4\n\xff\xfe", accept_offset=True) == len(before)


def test_bytes_before_the_header_are_refused_where_the_policy_says_so() -> None:
    assert reason_of(b"\r\n%PDF-1.4\n", accept_offset=False) == "header_offset"


def test_a_header_after_the_first_kilobyte_is_none() -> None:
    assert reason_of(b" " * 1020 + b"%PDF-1.4") == "not_a_pdf"


@pytest.mark.parametrize("head", [b"", b"plain text", b"%PD", b"\0" * 2000])
def test_bytes_without_a_header_are_no_pdf(head: bytes) -> None:
    assert reason_of(head) == "not_a_pdf"


@pytest.mark.parametrize(
    "start",
    [
        b"PK\x03\x04",
        b"\x89PNG\r\n\x1a\n",
        b"\xff\xd8\xff\xe0",
        b"GIF89a",
        b"MZ\x90\x00",
        b"\x7fELF",
        b"%!PS-Adobe-3.0\n",
        b"II*\x00",
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
    ],
)
@pytest.mark.parametrize("rest", [b"", b"\n%PDF-1.4\n"], ids=["alone", "with a PDF inside"])
def test_a_file_that_starts_as_another_kind_is_refused(start: bytes, rest: bytes) -> None:
    assert reason_of(start + rest) == "foreign_container"


def test_libmagic_gives_its_opinion_and_its_version() -> None:
    media_type, version = libmagic_verdict(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")
    assert media_type == "application/pdf"
    assert version >= 500


@pytest.mark.parametrize(
    "opinion", ["application/octet-stream", "text/html", "video/16-bit LE LPCM audio", "", None]
)
@pytest.mark.parametrize("version", [533, 541, 544, 999])
def test_whatever_libmagic_says_the_verdict_is_the_same(
    monkeypatch: pytest.MonkeyPatch, opinion: str | None, version: int
) -> None:
    class Libmagic:
        def from_buffer(self, _: bytes) -> str:
            if opinion is None:
                raise RuntimeError("it cannot")
            return opinion

    pdf = pdfs.pages(2)
    expected = inspect_pdf(io.BytesIO(pdf), InspectionLimits())
    monkeypatch.setattr(signature, "_libmagic", lambda: (Libmagic(), version))
    found = inspect_pdf(io.BytesIO(pdf), InspectionLimits())
    valid = opinion in ("application/octet-stream", "text/html")
    assert (found.libmagic_type, found.libmagic_version) == (opinion if valid else "", version)
    same: dict[str, Any] = {
        "libmagic_type": expected.libmagic_type,
        "libmagic_version": expected.libmagic_version,
    }
    assert replace(found, **same) == expected
