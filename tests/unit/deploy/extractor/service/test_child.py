"""What a worker makes of the engine's answer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from consumers.providers.answers import problems_of
from deploy.extractor.child import answer_of, make_durable
from deploy.extractor.engine.model import ExtractedImage, Extraction
from schemas.problems import number_of


def test_an_image_that_several_pages_share_is_synced_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "shared.png"
    shared.write_bytes(b"x")
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
    images = tuple(
        ExtractedImage(page, 1, shared, "image/png", 1, 1, "ab", 1) for page in range(1, 4)
    )
    answer = answer_of(Extraction(3, images, ()), tmp_path)
    assert [image["page"] for image in answer["images"]] == [1, 2, 3]
    assert {image["file"] for image in answer["images"]} == {"shared.png"}
    assert synced == [str(shared), str(tmp_path)]


def test_an_image_that_the_engine_names_but_did_not_write_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        make_durable(tmp_path, {tmp_path / "absent.png"})


@pytest.mark.parametrize(("found", "last"), [(100, "undecodable"), (1000, "more count=900")])
def test_the_answer_is_bounded_and_says_how_many_problems_it_leaves_out(
    tmp_path: Path, found: int, last: str
) -> None:
    problems = answer_of(Extraction(1, (), ("undecodable",) * found), tmp_path)["problems"]
    assert problems[:100] == ["undecodable"] * 100
    assert problems[-1] == last
    assert len(problems) == min(found, 101)
    assert number_of(problems_of({"problems": problems})) == found
