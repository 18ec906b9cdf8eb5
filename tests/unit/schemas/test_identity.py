"""Names are deterministic, distinct where the things are, and safe as parts of object keys."""

from __future__ import annotations

import re
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import identity
from schemas.base import ID_PATTERN
from schemas.events import Pages

A, B = "a" * 64, "b" * 64
ids = st.from_regex(ID_PATTERN, fullmatch=True).filter(lambda text: ".." not in text)


def test_the_extraction_id_is_what_it_always_was() -> None:
    # A change here makes every job record and manifest that exists unfindable.
    made = identity.extraction_id("b1", "d1", [(A, None)], "default-1")
    assert made == "b5b10cb6-598c-585c-a960-5f3277c7d5cc"
    assert uuid.UUID(made).version == 5


@pytest.mark.parametrize(
    "other",
    [
        ("b2", "d1", [(A, None)], "p"),
        ("b1", "d2", [(A, None)], "p"),
        ("b1", "d1", [(B, None)], "p"),
        ("b1", "d1", [(A, None)], "q"),
        ("b1", "d1", [(A, None), (A, None)], "p"),
        ("b1", "d1", [(A, Pages(first=1, last=1))], "p"),
    ],
)
def test_whatever_makes_another_extraction_gives_another_id(
    other: tuple[str, str, list[tuple[str, Pages | None]], str],
) -> None:
    assert identity.extraction_id(*other) != identity.extraction_id("b1", "d1", [(A, None)], "p")


def test_the_order_of_segments_matters() -> None:
    forth = identity.extraction_id("b", "d", [(A, None), (B, None)], "p")
    back = identity.extraction_id("b", "d", [(B, None), (A, None)], "p")
    assert forth != back


@given(ids, ids, ids, ids)
def test_ids_do_not_run_into_each_other(a: str, b: str, c: str, d: str) -> None:
    same = (a, b) == (c, d)
    first = identity.extraction_id(a, b, [(A, None)], "p")
    second = identity.extraction_id(c, d, [(A, None)], "p")
    assert (first == second) is same


def test_generations_have_keys_of_their_own_and_the_first_is_the_job_key() -> None:
    keys = [identity.idempotency_key("k", generation) for generation in (1, 2, 3)]
    assert keys == ["k", "k.2", "k.3"]


def test_shards_have_keys_of_their_own() -> None:
    keys = {identity.shard_key("x", first, last) for first in range(1, 9) for last in range(1, 9)}
    assert len(keys) == 64


def test_image_names_are_what_a_reviewer_asks_about() -> None:
    assert identity.image_name(42, 3) == "page-042-image-003"
    assert identity.image_name(1234, 1001) == "page-1234-image-1001"


def test_images_stand_next_to_their_manifest_under_their_content() -> None:
    prefix = identity.manifest_prefix("b1", "d1", A, "default-1")
    assert identity.manifest_key("b1", "d1", A, "default-1") == f"{prefix}/manifest.json"
    key = identity.image_key(prefix, "page-001-image-001", B, "image/png")
    assert key == f"{prefix}/images/page-001-image-001-{'b' * 16}.png"
    assert key != identity.image_key(prefix, "page-001-image-001", A, "image/png")


def test_an_unknown_media_type_has_a_harmless_extension() -> None:
    assert identity.image_key("p", "n", A, "text/html; x=../..").endswith(".bin")


@given(ids, ids)
def test_no_id_leaves_its_folder_or_enters_ours(bundle: str, document: str) -> None:
    key = identity.manifest_key(bundle, document, A, "default-1")
    assert key.split("/")[:2] == [bundle, document]
    assert not key.startswith("_")
    assert not re.search(r"(^|/)\.\.?(/|$)", key)


def test_dead_letters_of_one_record_are_told_apart_by_document_and_reason() -> None:
    made = {
        identity.dead_letter_id("t", partition, offset, doc, reason)
        for partition in (0, 1)
        for offset in (0, 1)
        for doc in ("a", "b")
        for reason in ("x", "y")
    }
    assert len(made) == 16
