"""Finds the images in what the layout parser of Google Document AI writes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from consumers.providers.answers import count_of, images_of, object_in, objects_in
from consumers.providers.errors import CallFailed
from consumers.providers.protocol import RemoteImage

_DEEPEST = 64


def shard_number(name: str) -> tuple[int, str]:
    """Output shards end in `-<number>.json`."""
    number = re.search(r"-(\d{1,9})\.json$", name)
    return (int(number[1]) if number else 0, name)


def images_of_shard(shard: Any) -> list[RemoteImage]:
    """The image blocks of one output shard, in the order of the layout.

    Raises:
        CallFailed: the shard is not a document, or names an image that it does not hold. Nothing is
            left out: it would be lost.
    """
    if not isinstance(shard, dict):
        raise CallFailed("result_missing", operation="images")
    assets = {
        asset["assetId"]: asset
        for asset in objects_in(shard, "blobAssets", operation="images")
        if isinstance(asset.get("assetId"), str)
    }
    layout = object_in(shard, "documentLayout", operation="images")
    images: list[RemoteImage] = []
    for page, block in _image_blocks(layout, 0):
        name = block.get("blobAssetId")
        asset = assets.get(name) if isinstance(name, str) else None
        entry = {
            "page": page or None,
            "base64": asset.get("content") if asset else None,
            "url": block.get("dataUri"),
            "mime_type": (asset or block).get("mimeType"),
        }
        try:
            images += images_of([entry])
        except ValueError:
            raise CallFailed("images_unreadable", operation="images") from None
        if images[-1].data is None:
            raise CallFailed("images_not_inline", operation="images")
    return images


def _image_blocks(
    parent: Mapping[str, Any], page: int, depth: int = 0
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Every image block with its page, also those inside of text, list and table blocks."""
    if depth > _DEEPEST:
        raise CallFailed("result_nested_too_deep", operation="images")
    for block in objects_in(parent, "blocks", operation="images"):
        span = object_in(block, "pageSpan", operation="images")
        own_page = count_of(span.get("pageStart")) or page
        if block.get("imageBlock") is not None:
            yield own_page, object_in(block, "imageBlock", operation="images")
        for inner in _parents_of_blocks(block):
            yield from _image_blocks(inner, own_page, depth + 1)


def _parents_of_blocks(block: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    operation = "images"
    yield object_in(block, "textBlock", operation=operation)
    listing = object_in(block, "listBlock", operation=operation)
    yield from objects_in(listing, "listEntries", operation=operation)
    table = object_in(block, "tableBlock", operation=operation)
    for rows in ("headerRows", "bodyRows"):
        for row in objects_in(table, rows, operation=operation):
            yield from objects_in(row, "cells", operation=operation)
