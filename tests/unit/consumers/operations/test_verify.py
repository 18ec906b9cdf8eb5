"""What `bundles verify` finds."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from consumers.operations.verify import Fault, Verified, verify
from schemas.problems import Problem
from tests.unit.consumers.operations.stored import BUCKET, ADocument, Stored


def verified(stored: Stored, *, read: bool = True, document: str | None = None) -> list[Verified]:
    return list(
        verify(
            stored.store,
            BUCKET,
            bundle_id="bundle-1",
            document_id=document,
            read=read,
            threads=1,
            sleep=lambda _: None,
        )
    )


def faults(stored: Stored, *, read: bool = True) -> list[tuple[Fault, str]]:
    return [(f.fault, f.key) for one in verified(stored, read=read) for f in one.faults]


def test_a_document_that_is_whole_has_no_fault() -> None:
    stored = Stored()
    document = ADocument(stored)
    document.write_all()
    (one,) = verified(stored)
    assert (one.images, one.faults, one.finished) == (2, [], True)
    assert one.extraction_id == document.extraction_id


def test_what_the_service_could_not_give_is_counted_and_no_fault() -> None:
    stored = Stored()
    missing = (Problem(code="undecodable", page=2, index=1), Problem(code="more", count=4))
    ADocument(stored, problems=missing).write_all()
    (one,) = verified(stored)
    assert (one.problems, one.faults) == (5, [])


def test_a_missing_image_is_found() -> None:
    stored = Stored()
    document = ADocument(stored)
    document.write_all()
    stored.store.delete(BUCKET, document.image(2).key)
    assert faults(stored) == [(Fault.MISSING, document.image(2).key)]


@pytest.mark.parametrize("change", [bytes.upper, lambda body: body[:-1], lambda body: body + b"!"])
def test_an_image_with_other_bytes_is_found(change: Callable[[bytes], bytes]) -> None:
    stored = Stored()
    document = ADocument(stored)
    document.write_all()
    key = document.image(1).key
    stored.put(key, change(stored.store.get(BUCKET, key, max_bytes=1000).body))
    assert faults(stored) == [(Fault.DIFFERS, key)]


def test_without_reading_another_size_is_found_and_other_bytes_are_not() -> None:
    stored = Stored()
    document = ADocument(stored)
    document.write_all()
    first, second = document.image(1).key, document.image(2).key
    stored.put(first, b"!")
    stored.put(second, stored.store.get(BUCKET, second, max_bytes=1000).body.upper())
    assert faults(stored, read=False) == [(Fault.DIFFERS, first)]


def test_an_image_that_the_manifest_does_not_name_is_extra() -> None:
    stored = Stored()
    document = ADocument(stored)
    document.write_all()
    extra = document.write_image(2, b"other")
    assert faults(stored) == [(Fault.EXTRA, extra)]


def test_images_without_a_manifest_are_unfinished_not_at_fault() -> None:
    stored = Stored()
    ADocument(stored).write_images()
    (one,) = verified(stored)
    assert not one.finished
    assert one.faults == []


def test_a_damaged_manifest_is_found() -> None:
    stored = Stored()
    document = ADocument(stored)
    document.write_all()
    stored.put(document.manifest_key, b"{")
    assert faults(stored) == [(Fault.UNREADABLE, document.manifest_key)]


@pytest.mark.parametrize(
    ("member", "value"),
    [("document_id", "another"), ("extraction_id", "another"), ("policy_version", "other-0123")],
)
def test_a_manifest_that_speaks_of_another_document_is_found(member: str, value: str) -> None:
    stored = Stored()
    document = ADocument(stored)
    document.write_all()
    manifest = json.loads(stored.store.get(BUCKET, document.manifest_key, max_bytes=9999).body)
    stored.put(document.manifest_key, json.dumps(manifest | {member: value}).encode())
    assert faults(stored) == [(Fault.MISPLACED, document.manifest_key)]


def test_one_document_or_the_whole_bundle_and_nothing_of_a_bundle_whose_id_begins_alike() -> None:
    stored = Stored()
    for bundle, name in (("bundle-1", "a"), ("bundle-1", "ab"), ("bundle-10", "a")):
        ADocument(stored, bundle_id=bundle, document_id=name).write_all()
    assert [one.document_id for one in verified(stored)] == ["a", "ab"]
    assert [one.document_id for one in verified(stored, document="a")] == ["a"]
