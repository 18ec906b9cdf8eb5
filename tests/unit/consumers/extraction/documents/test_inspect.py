import contextlib
import hashlib
import io
import time
from typing import Literal

import pikepdf
import pypdf
import pytest

from consumers.extraction.documents import inspect as inspect_module
from consumers.extraction.documents.inspect import inspect_pdf
from consumers.extraction.documents.model import DocumentRejected, Inspection, InspectionLimits
from tests import documents_pdfs, pdfs

LIMITS = InspectionLimits(max_bytes=1 << 24, max_pages=1000)


def inspect(
    pdf: bytes, limits: InspectionLimits = LIMITS, password: str | None = None
) -> Inspection:
    return inspect_pdf(io.BytesIO(pdf), limits, password)


def test_a_known_checksum_spares_a_pass_over_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_file: object) -> str:
        raise AssertionError("the file was read once more")

    monkeypatch.setattr(inspect_module, "_sha256", never)
    known = "c" * 64
    assert inspect_pdf(io.BytesIO(pdfs.pages(1)), LIMITS, sha256=known).sha256 == known


def rejection(
    pdf: bytes, limits: InspectionLimits = LIMITS, password: str | None = None
) -> DocumentRejected:
    with pytest.raises(DocumentRejected) as rejected:
        inspect(pdf, limits, password=password)
    return rejected.value


def opening_with_the_empty_password(revision: Literal[3, 4, 6]) -> bytes:
    buffer = io.BytesIO()
    with pikepdf.open(io.BytesIO(pdfs.pages(3))) as pdf:
        pdf.save(
            buffer,
            encryption=pikepdf.Encryption(
                user="", owner="owner", R=revision, aes=revision > 3, metadata=revision > 3
            ),
        )
    return buffer.getvalue()


def test_a_clean_file_is_described() -> None:
    pdf = pdfs.pages(3)
    found = inspect(pdf)
    assert found.sha256 == hashlib.sha256(pdf).hexdigest()
    assert found.bytes == len(pdf)
    assert found.pages == 3
    assert (found.engine, found.repaired, found.encrypted) == ("pypdf", False, False)
    assert found.header_offset == 0
    assert found.media_type == found.libmagic_type == "application/pdf"


@pytest.mark.parametrize("claimed", [0, 1, 10**9, -5])
def test_the_pages_are_counted_and_the_claimed_count_is_not_believed(claimed: int) -> None:
    assert inspect(documents_pdfs.lying_count(7, claimed)).pages == 7


def test_a_claimed_count_without_pages_is_no_page() -> None:
    assert rejection(documents_pdfs.lying_count(0, 5)).reason == "no_pages"


def test_a_document_without_pages_is_refused() -> None:
    assert rejection(documents_pdfs.no_pages()).reason == "no_pages"


def test_a_cyclic_page_tree_is_unreadable() -> None:
    assert rejection(documents_pdfs.cyclic_page_tree()).reason == "unreadable"


@pytest.mark.parametrize("depth", [101, 1000, 10_000])
def test_a_page_tree_deeper_than_the_engines_go_is_counted(depth: int) -> None:
    found = inspect(documents_pdfs.deep_page_tree(depth))
    assert (found.pages, found.engine, found.seen_differently) == (1, "pikepdf", True)


def test_the_pages_of_all_levels_of_a_deep_tree_count() -> None:
    assert inspect(documents_pdfs.deep_page_tree_with_pages(500)).pages == 500
    refused = rejection(documents_pdfs.deep_page_tree_with_pages(1001))
    assert (refused.reason, refused.detail["pages"]) == ("too_many_pages", 1001)


def test_a_deep_tree_with_a_cycle_or_that_multiplies_its_pages_is_refused() -> None:
    assert rejection(documents_pdfs.deep_page_tree_with_a_cycle(200)).reason == "unreadable"
    assert rejection(documents_pdfs.page_tree_of_shared_nodes(120)).reason == "unreadable"


def test_a_page_tree_of_reasonable_depth_is_read() -> None:
    assert inspect(documents_pdfs.deep_page_tree(50)).pages == 1


def test_a_tree_that_multiplies_its_pages_is_refused() -> None:
    assert rejection(documents_pdfs.page_tree_of_shared_nodes(6)).reason in (
        "unreadable",
        "too_many_pages",
    )


def test_a_file_that_pypdf_gives_up_on_is_read_by_the_second_engine() -> None:
    damaged = documents_pdfs.without_startxref(pdfs.pages(4))
    with pytest.raises(Exception, match=r"."):
        len(pypdf.PdfReader(io.BytesIO(damaged)).pages)
    found = inspect(damaged)
    assert (found.pages, found.engine, found.repaired) == (4, "pikepdf", True)


def test_a_page_that_pypdf_leaves_out_counts() -> None:
    damaged = pdfs.pages(3).replace(b"/Type /Page >>", b"/Type /Pnge >>", 1)
    assert len(pypdf.PdfReader(io.BytesIO(damaged)).pages) == 2
    found = inspect(damaged)
    assert (found.pages, found.engine, found.repaired) == (3, "pikepdf", True)


def test_a_page_that_pikepdf_leaves_out_counts() -> None:
    damaged = documents_pdfs.with_a_broken_page(pdfs.pages(3))
    with pikepdf.open(io.BytesIO(damaged)) as pdf:
        assert len(pdf.pages) == 2
    found = inspect(damaged)
    assert (found.pages, found.engine, found.seen_differently) == (3, "pypdf", True)


def test_what_pikepdf_does_not_open_is_seen_differently() -> None:
    found = inspect(documents_pdfs.without_root(pdfs.pages(3)))
    assert (found.pages, found.engine, found.seen_differently) == (3, "pypdf", True)


@pytest.mark.parametrize(
    "pdf",
    [
        pdfs.pages(3),
        documents_pdfs.lying_count(3, 1),
        documents_pdfs.without_startxref(pdfs.pages(3)),
        pdfs.pages(3).replace(b"/Type /Page >>", b"/Type /Pnge >>", 1),
    ],
    ids=["healthy", "lying count", "only pikepdf reads it", "pikepdf sees more"],
)
def test_what_pikepdf_sees_all_of_is_not_seen_differently(pdf: bytes) -> None:
    found = inspect(pdf)
    assert (found.pages, found.seen_differently) == (3, False)


@pytest.mark.parametrize(
    ("error", "seen_differently"),
    [
        (pikepdf.PdfError, True),
        (pikepdf.QpdfRuntimeError, True),
        (pikepdf.PasswordError, False),
        (MemoryError, False),
    ],
)
def test_a_second_opinion_that_fails_changes_no_number(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception], seen_differently: bool
) -> None:
    def fail(*_arguments: object, **_options: object) -> None:
        raise error

    monkeypatch.setattr(pikepdf, "open", fail)
    found = inspect(pdfs.pages(3))
    assert (found.pages, found.engine, found.repaired) == (3, "pypdf", False)
    assert found.seen_differently is seen_differently


def test_any_exception_of_the_first_engine_leads_to_the_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_arguments: object) -> None:
        raise AssertionError("pypdf raises this on some files")

    monkeypatch.setattr(pypdf, "PdfReader", fail)
    assert inspect(pdfs.pages(2)).engine == "pikepdf"


def test_an_engine_that_takes_too_long_leads_to_the_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def swallowing_loop(*_arguments: object) -> None:
        while True:
            with contextlib.suppress(Exception):
                sum(range(1000))

    monkeypatch.setattr(inspect_module, "_count_with_pypdf", swallowing_loop)
    started = time.process_time()
    found = inspect_pdf(io.BytesIO(pdfs.pages(2)), LIMITS, first_engine_seconds=0.05)
    assert (found.pages, found.engine) == (2, "pikepdf")
    assert time.process_time() - started < 5


@pytest.mark.parametrize("revision", [3, 4, 6])
def test_a_file_that_opens_with_the_empty_password_is_accepted(
    revision: Literal[3, 4, 6],
) -> None:
    found = inspect(opening_with_the_empty_password(revision))
    assert (found.pages, found.encrypted) == (3, True)


def test_a_file_that_needs_a_password_is_refused_as_encrypted() -> None:
    rejected = rejection(pdfs.encrypted("secret"))
    assert (rejected.reason, rejected.detail) == ("encrypted", {"password_given": 0})


def test_a_wrong_password_is_refused_as_encrypted_and_is_in_no_text() -> None:
    rejected = rejection(pdfs.encrypted("secret"), password="wr0ng")
    assert (rejected.reason, rejected.detail) == ("encrypted", {"password_given": 1})
    assert "wr0ng" not in str(rejected)


def test_the_right_password_opens() -> None:
    found = inspect(pdfs.encrypted("secret"), password="secret")
    assert (found.pages, found.encrypted) == (1, True)


def test_a_password_that_is_not_needed_does_no_harm() -> None:
    assert inspect(pdfs.pages(2), password="secret").pages == 2


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("empty", "not_a_pdf"),
        ("text", "not_a_pdf"),
        ("png", "foreign_container"),
        ("zip", "foreign_container"),
        ("header_only", "unreadable"),
        ("html_after_header", "unreadable"),
        ("truncated", "unreadable"),
    ],
)
def test_what_is_no_readable_pdf_has_its_own_reason(kind: str, reason: str) -> None:
    assert rejection(pdfs.not_a_pdf(kind)).reason == reason


def test_a_scan_after_the_headers_of_a_web_server_is_read() -> None:
    before = b"HTTP/1.1 200 OK\r\n\r\n"
    assert inspect(before + pdfs.one_page_scan()).header_offset == len(before)


def test_too_many_bytes_are_refused_with_both_numbers() -> None:
    pdf = pdfs.pages(1)
    rejected = rejection(pdf, InspectionLimits(max_bytes=len(pdf) - 1))
    assert rejected.reason == "too_large"
    assert rejected.detail == {"bytes": len(pdf), "max_bytes": len(pdf) - 1}


def test_too_many_pages_are_refused_with_both_numbers() -> None:
    rejected = rejection(pdfs.pages(3), InspectionLimits(max_pages=2))
    assert rejected.reason == "too_many_pages"
    assert rejected.detail == {"pages": 3, "max_pages": 2}
    assert inspect(pdfs.pages(3), InspectionLimits(max_pages=3)).pages == 3


def test_details_of_a_rejection_are_few() -> None:
    assert len(DocumentRejected("unreadable", {str(n): n for n in range(100)}).detail) == 8
