"""A sandbox process may have been taken over by a document: what it says is checked."""

from typing import Any

import pytest

from consumers.extraction.documents.model import (
    AssemblyLimits,
    DocumentRejected,
    ImageLimits,
    InspectionLimits,
    RegionOutside,
    RejectedImage,
)
from consumers.extraction.sandbox import answers
from consumers.extraction.sandbox.answers import InvalidAnswer, batches
from consumers.extraction.sandbox.errors import SandboxCrashed, SandboxMemory, SandboxTimeout
from schemas.reasons import Reason

SHA256 = "0" * 64
INSPECTION = {
    "sha256": SHA256,
    "bytes": 10,
    "pages": 2,
    "encrypted": False,
    "header_offset": 0,
    "libmagic_type": "application/pdf",
    "libmagic_version": 545,
    "engine": "pypdf",
    "repaired": False,
    "seen_differently": True,
}
IMAGE = {"media_type": "image/png", "width": 1, "height": 1, "bytes": 5, "sha256": SHA256}


def test_every_reason_is_one_of_the_published_reasons() -> None:
    published = {reason.value for reason in Reason}
    sandbox_reasons = {error.reason for error in (SandboxCrashed, SandboxMemory, SandboxTimeout)}
    assert answers.DOCUMENT_REASONS | answers.IMAGE_REASONS | sandbox_reasons <= published


def test_a_good_inspection_is_taken() -> None:
    taken = answers.inspection({"inspection": INSPECTION}, InspectionLimits())
    assert (taken.pages, taken.seen_differently) == (2, True)


def test_a_process_cannot_say_that_it_was_another_document() -> None:
    known = "c" * 64
    taken = answers.inspection({"inspection": INSPECTION}, InspectionLimits(), known)
    assert taken.sha256 == known


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("sha256", "x" * 64),
        ("sha256", SHA256 + "\n"),
        ("bytes", -1),
        ("bytes", 10**12),
        ("pages", 0),
        ("pages", True),
        ("pages", "2"),
        ("pages", 10**9),
        ("pages", 2.0),
        ("encrypted", 1),
        ("header_offset", 5000),
        ("libmagic_type", "text/plain\r\nX-Injected: 1"),
        ("libmagic_type", "a/" + "b" * 1000),
        ("libmagic_version", None),
        ("engine", "other"),
        ("repaired", "no"),
        ("seen_differently", 1),
        ("seen_differently", None),
    ],
)
def test_a_member_that_cannot_be_is_refused(member: str, value: Any) -> None:
    with pytest.raises(InvalidAnswer):
        answers.inspection({"inspection": {**INSPECTION, member: value}}, InspectionLimits())


@pytest.mark.parametrize("answer", [{}, {"inspection": None}, {"inspection": []}])
def test_an_answer_without_its_content_is_refused(answer: dict[str, Any]) -> None:
    with pytest.raises(InvalidAnswer):
        answers.inspection(answer, InspectionLimits())


def test_a_rejection_is_raised_with_its_numbers() -> None:
    with pytest.raises(DocumentRejected) as rejected:
        answers.raise_if_rejected({"rejected": "page_range", "detail": {"first": 3}})
    assert (rejected.value.reason, rejected.value.detail) == ("page_range", {"first": 3})


@pytest.mark.parametrize(
    "answer",
    [
        {"rejected": "patient name", "detail": {}},
        {"rejected": ["unreadable"], "detail": {}},
        {"rejected": "unreadable"},
        {"rejected": "unreadable", "detail": {"page": "text"}},
        {"rejected": "unreadable", "detail": {"Some Content": 1}},
        {"rejected": "unreadable", "detail": {"n" * n: n for n in range(1, 20)}},
    ],
)
def test_a_rejection_cannot_carry_text(answer: dict[str, Any]) -> None:
    with pytest.raises(InvalidAnswer):
        answers.raise_if_rejected(answer)


def test_the_page_map_is_built_from_ranges() -> None:
    value = {"sha256": SHA256, "bytes": 9, "ranges": [[2, 3], [1, 1]]}
    assembled = answers.assembled({"assembled": value}, 2, AssemblyLimits())
    assert assembled.page_map == ((0, 2), (0, 3), (1, 1))
    assert assembled.pages == 3


@pytest.mark.parametrize(
    "ranges", [[], [[1, 2]], [[2, 1], [1, 1]], [[1], [1]], [[0, 1], [1, 1]], [[1, 10**9], [1, 1]]]
)
def test_ranges_that_cannot_be_are_refused(ranges: list[Any]) -> None:
    value = {"sha256": SHA256, "bytes": 9, "ranges": ranges}
    with pytest.raises(InvalidAnswer):
        answers.assembled({"assembled": value}, 2, AssemblyLimits())


def test_images_are_taken_in_order() -> None:
    found = answers.images({"images": [IMAGE, {"reason": "image_not_an_image"}]}, 2, ImageLimits())
    assert found[1] == RejectedImage("image_not_an_image")


@pytest.mark.parametrize(
    "images",
    [
        [],
        [IMAGE, IMAGE],
        [None],
        [{**IMAGE, "media_type": "text/html"}],
        [{**IMAGE, "media_type": ["image/png"]}],
        [{**IMAGE, "width": 0}],
        [{"reason": "other"}],
        [{"reason": {}}],
    ],
)
def test_images_that_cannot_be_are_refused(images: list[Any]) -> None:
    with pytest.raises(InvalidAnswer):
        answers.images({"images": images}, 1, ImageLimits())


def test_requests_are_bounded_in_number_and_size() -> None:
    runs = batches([5, 5, 5, 100, 1, 1], max_count=2, max_total=10)
    assert runs == [slice(0, 2), slice(2, 3), slice(3, 4), slice(4, 6)]
    assert batches([], max_count=2, max_total=10) == []


def test_sizes_of_what_was_cut_are_taken() -> None:
    assert answers.cut_sizes({"sizes": [3, 4]}, count=2, total=7) == [3, 4]
    with pytest.raises(RegionOutside):
        answers.cut_sizes({"region_outside": True}, count=2, total=7)


@pytest.mark.parametrize("sizes", [None, [7], [3, 5], [0, 7], [8, -1], ["3", 4], [3, 4, 0]])
def test_sizes_that_do_not_fit_what_was_written_are_refused(sizes: object) -> None:
    with pytest.raises(InvalidAnswer):
        answers.cut_sizes({"sizes": sizes}, count=2, total=7)
