"""Names of images and the manifest: pure, and equal whoever makes them."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.extraction.manifest_building import (
    Finished,
    build_manifest,
    check_complete,
    check_pages,
    name_images,
    page_of,
    problems_of,
)
from consumers.extraction.scope import DocumentFailed
from consumers.providers.protocol import PAGE_NOT_TOLD, Abilities, JobState, JobStatus, RemoteImage
from schemas.base import Operation
from schemas.canonical import canonical_json
from schemas.job_record import JobPhase, JobRecord, JobShard
from schemas.manifest import Manifest, ManifestImage, ManifestSegment
from schemas.policy import Policy
from schemas.problems import MAX_PROBLEMS, Problem, number_of
from schemas.reasons import Reason

SHA = "a" * 64
FINISHED: Any = None
"""`name_images` only carries it along."""


def listed(*places: tuple[int, int]) -> list[tuple[int, int, Finished, RemoteImage]]:
    return [
        (page, order, FINISHED, RemoteImage(page, order, ref=f"{page}-{order}"))
        for page, order in places
    ]


def test_images_are_named_by_page_and_by_their_order_on_it() -> None:
    named = name_images(listed((2, 7), (1, 0), (2, 3), (12, 0)))
    assert [(image.name, image.remote.ref) for image in named] == [
        ("page-001-image-001", "1-0"),
        ("page-002-image-001", "2-3"),
        ("page-002-image-002", "2-7"),
        ("page-012-image-001", "12-0"),
    ]


def test_a_document_without_images_has_no_names() -> None:
    assert name_images([]) == []


def test_an_image_whose_page_is_not_told_is_on_the_only_page_there_is() -> None:
    untold = RemoteImage(PAGE_NOT_TOLD, 0, ref="x")
    assert page_of(untold, pages=1) == 1
    with pytest.raises(DocumentFailed) as caught:
        page_of(untold, pages=2)
    assert caught.value.reason is Reason.PROVIDER_INCOMPLETE


@pytest.mark.parametrize(("page", "pages"), [(2, 1), (-1, 3), (4, 3)])
def test_an_image_of_a_page_that_is_not_there_fails_its_document(page: int, pages: int) -> None:
    with pytest.raises(DocumentFailed):
        page_of(RemoteImage(page, 0, ref="x"), pages)


@pytest.mark.parametrize(
    ("told", "reports_pages", "complete"),
    [(3, True, True), (3, False, True), (None, False, True), (None, True, False)]
    + [(told, reports, False) for told in (0, 2, 4) for reports in (True, False)],
)
def test_a_job_that_does_not_say_that_it_covered_all_pages_is_not_complete(
    told: int | None, reports_pages: bool, complete: bool
) -> None:
    abilities = Abilities(idempotent_submit=True, reports_pages=reports_pages)
    status = JobStatus(JobState.SUCCEEDED, "done", pages=told)
    if complete:
        check_pages(status, 3, abilities)
        return
    with pytest.raises(DocumentFailed) as caught:
        check_pages(status, 3, abilities)
    assert caught.value.reason is Reason.PROVIDER_INCOMPLETE


@given(
    st.sets(st.tuples(st.integers(1, 1200), st.integers(0, 50)), max_size=60),
    st.randoms(use_true_random=False),
)
def test_names_do_not_depend_on_the_order_in_which_the_service_lists(
    places: set[tuple[int, int]], rng: random.Random
) -> None:
    ordered = sorted(places)
    shuffled = ordered[:]
    rng.shuffle(shuffled)
    first, second = name_images(listed(*ordered)), name_images(listed(*shuffled))
    assert first == second
    assert len({image.name for image in first}) == len(places)
    assert [(image.remote.page, image.remote.order) for image in first] == ordered


def shard(first: int, last: int, **changes: Any) -> JobShard:
    values: dict[str, Any] = {
        "first_page": first,
        "last_page": last,
        "job_key": f"key-{first}",
        "phase": JobPhase.SUBMITTED,
        "submits": 1,
        "job_id": f"job-{first}",
        "accepted_at": "2026-01-31T12:00:00.000Z",
    }
    return JobShard(**(values | changes))


def record(*shards: JobShard, **changes: Any) -> JobRecord:
    values: dict[str, Any] = {
        "extraction_id": "extraction",
        "bundle_id": "bundle",
        "operation": Operation.MERGED,
        "document_id": "document",
        "policy_version": "default-1",
        "provider": "remote",
        "segments": (ManifestSegment(bucket="in", key="a.pdf", sha256=SHA, bytes=10),),
        "submitted_sha256": SHA,
        "submitted_bytes": 10,
        "pages": 4,
        "page_map": ((1, 1, 4),),
        "parser": "pypdf",
        "created_at": "2026-01-31T11:59:00.000Z",
        "updated_at": "2026-01-31T12:00:01.000Z",
        "owner": "worker-1",
        "shards": shards,
        "manifest_key": "bundle/document/x/manifest.json",
    }
    return JobRecord(**(values | changes))


def finished(finished_at: str | None = None) -> Finished:
    status = JobStatus(JobState.SUCCEEDED, "completed", finished_at=finished_at)
    return Finished(FINISHED, status)


IMAGE = ManifestImage(
    name="page-001-image-001",
    page=1,
    segment=1,
    source_page=1,
    key="bundle/document/x/images/page-001-image-001-aaaa.png",
    sha256=SHA,
    bytes=5,
    media_type="image/png",
    width=1,
    height=1,
)


def test_the_extraction_ended_when_the_last_job_did() -> None:
    manifest = build_manifest(
        record(shard(1, 2), shard(3, 4)),
        [finished("2026-01-31T12:05:00Z"), finished("2026-01-31T13:04:00.5+01:00")],
        [],
    )
    assert manifest.extracted_at == "2026-01-31T12:05:00.000Z"


@pytest.mark.parametrize("told", [None, "", "yesterday"])
def test_where_the_service_keeps_no_end_the_acceptance_counts(told: str | None) -> None:
    manifest = build_manifest(record(shard(1, 4)), [finished(told)], [])
    assert manifest.extracted_at == "2026-01-31T12:00:00.000Z"


def test_jobs_keep_their_pages_keys_and_submits() -> None:
    manifest = build_manifest(
        record(shard(1, 2, generation=2, submits=3), shard(3, 4)), [finished(), finished()], []
    )
    assert [(j.first_page, j.last_page, j.idempotency_key) for j in manifest.jobs] == [
        (1, 2, "key-1.2"),
        (3, 4, "key-3"),
    ]
    assert manifest.submits == 4


def test_an_image_that_is_a_mask_says_so_and_no_other_image_says_anything() -> None:
    mask = IMAGE.model_copy(update={"is_mask": True})
    written = canonical_json(build_manifest(record(shard(1, 4)), [finished()], [IMAGE, mask]))
    plain, marked = json.loads(written)["images"]
    assert "is_mask" not in plain
    assert marked == {**plain, "is_mask": True}
    assert [i.is_mask for i in Manifest.model_validate_json(written).images] == [False, True]


def could_not_give(*problems: Problem) -> Finished:
    status = JobStatus(JobState.SUCCEEDED, "completed", problems=problems)
    return Finished(FINISHED, status)


def undecodable(page: int | None, index: int | None = 1) -> Problem:
    return Problem(code="undecodable", page=page, index=index)


def places(problems: Sequence[Problem]) -> list[tuple[int | None, int | None]]:
    return [(problem.page, problem.index) for problem in problems]


def test_what_a_service_could_not_give_has_the_page_of_the_document() -> None:
    manifest = build_manifest(
        record(shard(1, 2), shard(3, 4)),
        [could_not_give(undecodable(2, 3)), could_not_give(undecodable(2), undecodable(1))],
        [],
    )
    assert places(manifest.problems) == [(2, 3), (3, 1), (4, 1)]


@pytest.mark.parametrize("page", [None, 3])
def test_a_problem_without_a_page_of_its_job_is_of_no_page_of_the_document(
    page: int | None,
) -> None:
    """Shifted, it would tell of a page of the next shard."""
    finished_jobs = [could_not_give(undecodable(page)), could_not_give(undecodable(1))]
    found = problems_of(record(shard(1, 2), shard(3, 4)), finished_jobs)
    assert places(found) == [(3, 1), (None, 1)]


def test_a_problem_without_a_page_is_of_the_only_page_there_is() -> None:
    jobs = [could_not_give(undecodable(1)), could_not_give(undecodable(None))]
    assert places(problems_of(record(shard(1, 3), shard(4, 4)), jobs)) == [(1, 1), (4, 1)]


@given(
    st.lists(st.tuples(st.none() | st.integers(1, 4), st.none() | st.integers(0, 9))),
    st.randoms(use_true_random=False),
)
def test_problems_do_not_depend_on_the_order_in_which_the_service_lists_them(
    told: list[tuple[int | None, int | None]], rng: random.Random
) -> None:
    problems = [undecodable(*place) for place in told]
    first = problems_of(record(shard(1, 4)), [could_not_give(*problems)])
    rng.shuffle(problems)
    assert problems_of(record(shard(1, 4)), [could_not_give(*problems)]) == first


def test_problems_are_bounded_and_the_last_entry_says_how_many_more_there_were() -> None:
    many = [undecodable(page % 2 + 1, page) for page in range(MAX_PROBLEMS)]
    untold = Problem(code="more", count=7)
    jobs = [could_not_give(*many, untold), could_not_give(*many, untold)]
    *listed, last = problems_of(record(shard(1, 2), shard(3, 4)), jobs)
    assert len(listed) == MAX_PROBLEMS
    assert {problem.page for problem in listed} == {1, 2}
    assert last == Problem(code="more", count=MAX_PROBLEMS + 14)
    assert number_of([*listed, last]) == 2 * MAX_PROBLEMS + 14


def test_a_manifest_says_nothing_of_problems_where_there_were_none() -> None:
    written = canonical_json(build_manifest(record(shard(1, 4)), [finished()], [IMAGE]))
    assert b"problems" not in written


def test_problems_are_read_back_as_they_were_written() -> None:
    jobs = [could_not_give(undecodable(2, 3), Problem(code="unrecognised"))]
    manifest = build_manifest(record(shard(1, 4)), jobs, [])
    written = canonical_json(manifest)
    assert json.loads(written)["problems"] == [
        {"code": "undecodable", "index": 3, "page": 2},
        {"code": "unrecognised"},
    ]
    assert Manifest.model_validate_json(written) == manifest


@pytest.mark.parametrize("incomplete", ["accept", "fail"])
def test_only_a_policy_that_says_so_fails_a_document_of_which_something_is_missing(
    incomplete: Literal["accept", "fail"],
) -> None:
    policy = Policy(name="default", incomplete=incomplete)
    check_complete(policy, ())
    if incomplete == "accept":
        check_complete(policy, [undecodable(1)])
        return
    with pytest.raises(DocumentFailed) as caught:
        check_complete(policy, [undecodable(1)])
    assert (caught.value.reason, caught.value.code) == (Reason.PROVIDER_INCOMPLETE, "undecodable")


def test_the_manifest_is_the_same_bytes_for_every_worker() -> None:
    mine = record(shard(1, 4))
    theirs = record(shard(1, 4), owner="worker-2", updated_at="2027-01-01T00:00:00.000Z", replays=3)
    written = {
        canonical_json(build_manifest(r, [finished("2026-01-31T12:05:00Z")], [IMAGE]))
        for r in (mine, theirs)
    }
    assert len(written) == 1
