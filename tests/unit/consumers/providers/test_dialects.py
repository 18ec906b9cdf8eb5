"""What is peculiar to one service and visible without a server."""

from __future__ import annotations

from typing import Any

import pytest

from consumers.providers.azure import azure_error_code, figures_of
from consumers.providers.errors import CallFailed
from consumers.providers.google_layout import images_of_shard, shard_number
from consumers.providers.google_storage import google_error_code
from schemas.problems import Problem


def figure(figure_id: str | None, page: int, top: float) -> dict[str, Any]:
    polygon = [1.0, top, 5.0, top, 5.0, top + 1, 1.0, top + 1]
    return {"id": figure_id, "boundingRegions": [{"pageNumber": page, "polygon": polygon}]}


def test_azure_figures_come_by_page_and_from_top_to_bottom() -> None:
    figures = [figure("2.1", 2, 1), figure("1.10", 1, 8), figure("1.9", 1, 2)]
    images, problems = figures_of({"figures": figures})
    assert [(image.page, image.order, image.ref) for image in images] == [
        (1, 0, "1.9"),
        (1, 1, "1.10"),
        (2, 0, "2.1"),
    ]
    assert problems == ()


def test_an_azure_figure_without_an_id_is_a_problem_that_names_its_page() -> None:
    images, problems = figures_of({"figures": [figure(None, 3, 1), figure("1.1", 1, 1)]})
    assert len(images) == 1
    assert problems == (Problem(code="figure_without_id", page=3),)


def test_the_innermost_code_of_an_azure_error_is_the_one_that_tells() -> None:
    inner = {"code": "InvalidContent", "innererror": {"code": "PasswordProtected"}}
    body = {"error": {"code": "InvalidRequest", "innererror": inner}}
    assert azure_error_code(body) == "PasswordProtected"
    assert azure_error_code({"error": {"code": "NotFound"}}) == "NotFound"
    assert azure_error_code({"error": {"code": "Failed", "innererror": {"code": "x1"}}}) == "Failed"
    assert azure_error_code({"error": {"code": "see Mr Novak", "innererror": "?"}}) is None


def test_googles_message_limit_is_told_from_its_quota() -> None:
    def body(message: str) -> dict[str, Any]:
        return {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": message}}

    assert google_error_code(body("Quota exceeded")) == "RESOURCE_EXHAUSTED"
    assert google_error_code(body("Received message larger than max")) == "message_too_large"


def image_block(asset: str, page: int | None = None) -> dict[str, Any]:
    block: dict[str, Any] = {"imageBlock": {"blobAssetId": asset}}
    return block | ({"pageSpan": {"pageStart": page, "pageEnd": page}} if page else {})


def test_google_images_are_found_in_lists_tables_and_texts_with_the_page_around_them() -> None:
    table = {"bodyRows": [{"cells": [{"blocks": [image_block("c")]}]}]}
    blocks = [
        image_block("a", 1),
        {
            "textBlock": {"blocks": [image_block("b", 3)]},
            "pageSpan": {"pageStart": 2, "pageEnd": 3},
        },
        {"tableBlock": table, "pageSpan": {"pageStart": 4, "pageEnd": 4}},
        {"listBlock": {"listEntries": [{"blocks": [image_block("d", 5)]}]}},
    ]
    assets = [{"assetId": name, "content": "cG5n", "mimeType": "image/png"} for name in "abcd"]
    images = images_of_shard({"blobAssets": assets, "documentLayout": {"blocks": blocks}})
    assert [image.page for image in images] == [1, 3, 4, 5]
    assert {image.data for image in images} == {b"png"}


def test_a_google_image_whose_content_is_missing_is_an_error_and_not_left_out() -> None:
    with pytest.raises(CallFailed):
        images_of_shard({"documentLayout": {"blocks": [image_block("a", 1)]}})


def test_google_shards_are_read_in_the_order_of_their_numbers() -> None:
    names = ["o/input-10.json", "o/input-2.json", "o/input-0.json"]
    assert sorted(names, key=shard_number) == names[::-1]
