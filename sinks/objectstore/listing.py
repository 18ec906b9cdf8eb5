"""A page of a bucket's listing (ListObjectsV2): what to ask, and what the answer says. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import unquote_plus
from xml.etree import ElementTree

from sinks.objectstore.answers import etag_of
from sinks.objectstore.protocol import ListedObject

MAX_PAGE_BYTES = 16 * 1024 * 1024
"""A thousand keys of 1,024 bytes, each of which quoting makes three times as long, are 4 MiB."""


class NoListing(Exception):
    """The answer is none that a listing can have."""


@dataclass(frozen=True, slots=True)
class Page:
    objects: list[ListedObject]
    next_token: str | None


def parameters(prefix: str, start_after: str | None, token: str | None) -> dict[str, str]:
    """Also what is empty or the default: a bucket's policy may have conditions on them."""
    asked = {"list-type": "2", "delimiter": "", "max-keys": "1000", "prefix": prefix}
    # Keys may have characters that XML cannot carry.
    asked["encoding-type"] = "url"
    if token is not None:
        asked["continuation-token"] = token
    elif start_after:
        asked["start-after"] = start_after
    return asked


def parse(body: bytes) -> Page:
    """:raises NoListing: see the class."""
    try:
        # The store's own answer; a parser without external entities, of a body that is bounded.
        root = ElementTree.fromstring(body)  # noqa: S314
    except ElementTree.ParseError:
        raise NoListing("it is no XML") from None
    if not root.tag.endswith("ListBucketResult"):
        raise NoListing("it is another document")
    quoted = _text(root, "EncodingType") == "url"
    try:
        found = list(_objects(root, quoted))
    except (ValueError, OverflowError):
        raise NoListing("an object's size or time is none") from None
    more = _text(root, "IsTruncated").lower() == "true"
    token = _text(root, "NextContinuationToken")
    if more and not token:
        raise NoListing("there is more, and no way to it")
    return Page(found, token if more else None)


def _objects(root: ElementTree.Element, quoted: bool) -> Iterator[ListedObject]:
    for item in root.iterfind("{*}Contents"):
        key = _text(item, "Key")
        key = unquote_plus(key) if quoted else key
        # A key that ends in a slash is a directory of a file system behind the store.
        if key and not key.endswith("/"):
            yield ListedObject(
                key=key,
                size=int(_text(item, "Size") or 0),
                last_modified=_time(_text(item, "LastModified")),
                etag=etag_of(_text(item, "ETag")),
            )


def _text(element: ElementTree.Element, name: str) -> str:
    return element.findtext(f"{{*}}{name}") or ""


def _time(text: str) -> datetime:
    if not text:
        return datetime.fromtimestamp(0, UTC)
    at = datetime.fromisoformat(text)
    return at if at.tzinfo else at.replace(tzinfo=UTC)
