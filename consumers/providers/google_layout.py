"""Finds the images in what the layout parser of Google Document AI writes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from consumers.providers import answers
from consumers.providers.errors import CallFailed
from consumers.providers.protocol import RemoteImage


def shard_number(name: str) -> tuple[int, str]:
    """Output shards end in `-<number>.json`."""
    number = re.search(r"-(\d{1,9})\.json$", name)
    return (int(number[1]) if number else 0, name)


def images_of_shard(shard: Any) -> list[RemoteImage]:
    """The image blocks of one output shard, in the order of the layout.

    Raises:
        CallFailed: the shard is not a document, or names an image that it does not hold.
    """
    if not isinstance(shard, dict):
        raise CallFailed("result_missing", operation="images")
    assets = {
        asset.get("assetId"): asset
        for asset in shard.get("blobAssets") or []
        if isinstance(asset, dict)
    }
    layout = shard.get("documentLayout")
    images: list[RemoteImage] = []
    for page, block in _image_blocks(layout.get("blocks") if isinstance(layout, dict) else None, 0):
        asset = assets.get(block.get("blobAssetId"))
        entry = {
            "page": page or None,
            "base64": asset.get("content") if asset else None,
            "url": block.get("dataUri"),
            "mime_type": (asset or block).get("mimeType"),
        }
        try:
            images += answers.images_of([entry])
        except ValueError:
            raise CallFailed("images_unreadable", operation="images") from None
        if images[-1].data is None:
            raise CallFailed("images_not_inline", operation="images")
    return images


def _image_blocks(
    blocks: Any, page: int, depth: int = 0
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Every image block with its page, also those inside of text, list and table blocks."""
    if depth > 64 or not isinstance(blocks, list):
        return
    for block in blocks:
        if not isinstance(block, dict):
            continue
        span = block.get("pageSpan")
        start = span.get("pageStart") if isinstance(span, dict) else None
        own_page = start if isinstance(start, int) and start > 0 else page
        if isinstance(block.get("imageBlock"), dict):
            yield own_page, block["imageBlock"]
        for inner in _inner_blocks(block):
            yield from _image_blocks(inner, own_page, depth + 1)


def _inner_blocks(block: Mapping[str, Any]) -> Iterator[Any]:
    text, listing, table = (
        block.get(name) or {} for name in ("textBlock", "listBlock", "tableBlock")
    )
    yield text.get("blocks")
    for entry in listing.get("listEntries") or []:
        yield entry.get("blocks")
    for row in (table.get("headerRows") or []) + (table.get("bodyRows") or []):
        for cell in row.get("cells") or []:
            yield cell.get("blocks")
