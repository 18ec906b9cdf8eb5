from __future__ import annotations

import base64
import itertools
import random
from typing import get_args

import pytest

from consumers.providers import answers
from consumers.providers.protocol import PAGE_NOT_TOLD, JobState
from deploy.extractor.engine.model import ProblemCode as EngineCode
from schemas.problems import Problem


@pytest.mark.parametrize(
    ("answer", "payload", "failed"),
    [
        ({"job_id": "a"}, {"job_id": "a"}, False),
        ({"ok": True, "data": {"job_id": "a"}, "error": None}, {"job_id": "a"}, False),
        ({"ok": False, "data": None, "error": {"code": "x"}}, {}, True),
        ([1], None, False),
        (None, None, False),
    ],
)
def test_bare_and_enveloped_answers_give_the_same_payload(
    answer: object, payload: object, failed: bool
) -> None:
    assert answers.unwrap(answer) == (payload, failed)


@pytest.mark.parametrize(
    "value", ["", ".", "..", "a/../b", "a b", "a\nb", "a?b", "a#b", "x" * 513, None, True, {}, 1.5]
)
def test_an_id_that_could_leave_its_path_or_break_a_log_line_is_not_usable(value: object) -> None:
    assert answers.usable_id(value) is None


@pytest.mark.parametrize("value", ["a", "projects/1/operations/2", "A-b_c.d~e", 17])
def test_ordinary_ids_are_usable(value: object) -> None:
    assert answers.usable_id(value) == str(value)


@pytest.mark.parametrize(
    ("word", "state", "known"),
    [
        ("completed", JobState.SUCCEEDED, True),
        ("SUCCEEDED", JobState.SUCCEEDED, True),
        ("done", JobState.SUCCEEDED, True),
        ("failed", JobState.FAILED, True),
        ("cancelled", JobState.FAILED, True),
        ("partial_success", JobState.FAILED, True),
        ("in progress", JobState.RUNNING, True),
        ("percolating", JobState.RUNNING, False),
        (None, JobState.RUNNING, False),
        (7, JobState.RUNNING, False),
    ],
)
def test_a_word_that_is_not_known_counts_as_running(
    word: object, state: JobState, known: bool
) -> None:
    assert (answers.state_of(word)[0], answers.state_of(word)[2]) == (state, known)


def test_a_status_word_with_content_in_it_is_not_shown() -> None:
    for word in ("failed for Mrs Novak, born 1950", "Novak_Jan_1950-02-03", "x" * 41):
        assert answers.state_of(word)[1] == "unrecognised"


def test_images_come_in_the_order_of_page_and_index_whatever_the_lists_order() -> None:
    listed = [
        {"page": page, "index": index, "url": f"https://h/{page}/{index}"}
        for page, index in itertools.product((1, 2), (1, 2, 5))
    ]
    expected = answers.images_of(listed)
    shuffled = listed[:]
    random.Random(3).shuffle(shuffled)
    assert answers.images_of(shuffled) == expected
    assert [(image.page, image.order) for image in expected] == [
        (1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2),
    ]  # fmt: skip


def test_without_an_index_the_place_on_the_page_orders_and_then_the_checksum() -> None:
    low = {"page": 1, "bbox": [0, 500, 9, 9], "url": "https://h/low"}
    high = {"page": 1, "bbox": [0, 20, 9, 9], "url": "https://h/high"}
    assert [image.url for image in answers.images_of([low, high])] == [
        "https://h/high",
        "https://h/low",
    ]
    first = {"page": 1, "sha256": "a" * 64, "url": "https://h/a"}
    second = {"page": 1, "sha256": "b" * 64, "url": "https://h/b"}
    assert answers.images_of([second, first]) == answers.images_of([first, second])


@pytest.mark.parametrize(
    "entry",
    [
        {"page": 3, "base64": base64.b64encode(b"png").decode()},
        {"page_number": 3, "data": "data:image/png;base64," + base64.b64encode(b"png").decode()},
        {"page_index": 2, "url": "data:image/png;base64," + base64.b64encode(b"png").decode()},
    ],
)
def test_inline_images_are_decoded_and_keep_their_page(entry: dict[str, object]) -> None:
    (image,) = answers.images_of([entry])
    assert (image.page, image.data, image.url) == (3, b"png", None)


def test_an_image_without_a_page_says_so_instead_of_claiming_one() -> None:
    (image,) = answers.images_of(["https://h/x"])
    assert image.page == PAGE_NOT_TOLD


def test_page_zero_makes_all_page_numbers_unknown_rather_than_shifted() -> None:
    images = answers.images_of(
        [{"page": 0, "url": "https://h/0"}, {"page": 1, "url": "https://h/1"}]
    )
    assert {image.page for image in images} == {PAGE_NOT_TOLD}


@pytest.mark.parametrize("entry", [{}, {"page": 1}, 7, None, {"data": "***"}, {"id": "../x"}])
def test_an_entry_that_is_no_image_is_an_error_and_not_left_out(entry: object) -> None:
    with pytest.raises(ValueError):
        answers.images_of([entry])


def test_a_name_with_a_path_in_it_never_becomes_anything() -> None:
    (image,) = answers.images_of([{"page": 1, "url": "https://h/x", "name": "../../etc/passwd"}])
    assert "passwd" not in repr(image)


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        ("2026-01-01T13:00:00+01:00", "2026-01-01T12:00:00.000Z"),
        ("2026-01-01T12:00:00", "2026-01-01T12:00:00.000Z"),
        (1767268800, "2026-01-01T12:00:00.000Z"),
        (1767268800000, "2026-01-01T12:00:00.000Z"),
        ("yesterday", None),
        (True, None),
        (10**30, None),
    ],
)
def test_finish_times_become_rfc_3339_in_utc_or_nothing(value: object, moment: str | None) -> None:
    assert answers.moment_of({"finished_at": value}) == moment


@pytest.mark.parametrize(
    ("told", "is_mask"),
    [({"is_mask": True}, True), ({"is_mask": False}, False), ({}, False)]
    + [({"is_mask": other}, False) for other in ("true", 1, None)],
)
def test_an_image_is_a_mask_only_where_the_service_says_so(
    told: dict[str, object], is_mask: bool
) -> None:
    (image,) = answers.images_of([{"page": 1, "id": "a"} | told])
    assert image.is_mask is is_mask


@pytest.mark.parametrize(
    ("told", "problem"),
    [
        ("undecodable page=3 index=2", Problem(code="undecodable", page=3, index=2)),
        ("unreadable_content page=3", Problem(code="unreadable_content", page=3)),
        ("figure_without_id", Problem(code="figure_without_id")),
        ("undecodable page=0", Problem(code="undecodable")),
        ("more count=7", Problem(code="more", count=7)),
        ("more page=2", Problem(code="more", count=1)),
        ("undecodable count=7", Problem(code="undecodable")),
        ("mr_novak page=3 index=2", Problem(code="unrecognised", page=3, index=2)),
        ("cannot read Mr Novak's scan", Problem(code="unrecognised")),
        ("undecodable page=٣", Problem(code="unrecognised")),
        ("undecodable page=3\n", Problem(code="unrecognised")),
        (7, Problem(code="unrecognised")),
        (None, Problem(code="unrecognised")),
    ],
)
def test_of_a_problem_remain_a_code_that_we_know_and_its_place(
    told: object, problem: Problem
) -> None:
    assert answers.problems_of({"problems": [told]}) == (problem,)


@pytest.mark.parametrize("told", [None, "undecodable", {"page": 1}, []])
def test_no_list_of_problems_is_none(told: object) -> None:
    assert answers.problems_of({"problems": told}) == ()


def test_problems_beyond_the_bound_are_counted() -> None:
    told = {"problems": ["undecodable page=1"] * (answers.MAX_PROBLEMS + 5)}
    *listed, last = answers.problems_of(told)
    assert len(listed) == answers.MAX_PROBLEMS
    assert last == Problem(code="more", count=5)


def test_whatever_the_self_hosted_engine_reports_is_known() -> None:
    told = [f"{code} page=1 index=1" for code in get_args(EngineCode)]
    found = answers.problems_of({"problems": told})
    assert [problem.code.value for problem in found] == list(get_args(EngineCode))
