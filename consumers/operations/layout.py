"""The output bucket read backwards: from keys to the documents that they belong to.

The keys are made in `schemas.identity`; a key that does not look exactly like one of those is
foreign, and nothing here ever touches it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from schemas.base import ID_PATTERN
from sinks.objectstore import ListedObject

JOBS = "_jobs/"
DEAD_LETTERS = "_dead-letters/"
REPLAYS = "_replays/"

_VERSION = re.compile(r"([0-9a-f]{64})-(.+)-[0-9a-f]{12}")
_IMAGE = re.compile(r"images/(page-\d{3,}-image-\d{3,})-[0-9a-f]{16}\.[a-z0-9]{2,4}")
_ID = re.compile(ID_PATTERN)


@dataclass(slots=True)
class StoredDocument:
    """What stands of one document under one source checksum and policy version."""

    prefix: str
    """``<bundle id>/<document id>/<source checksum>-<policy version>``"""
    bundle_id: str
    document_id: str
    policy_name: str
    manifest: ListedObject | None = None
    images: list[ListedObject] = field(default_factory=list)
    last_key: str = ""

    @property
    def manifest_key(self) -> str:
        return f"{self.prefix}/manifest.json"


def documents(
    objects: Iterable[ListedObject], on_foreign: Callable[[ListedObject], None] = lambda _: None
) -> Iterator[StoredDocument]:
    """The documents of a listing, one at a time: a prefix's keys follow each other in any store's
    order, so no more than one document's keys are held."""
    current: StoredDocument | None = None
    for item in objects:
        parts = item.key.split("/", 3)
        version = _VERSION.fullmatch(parts[2]) if len(parts) == 4 else None
        if version is None or not (_ID.match(parts[0]) and _ID.match(parts[1])):
            on_foreign(item)
            continue
        prefix = "/".join(parts[:3])
        if current is None or current.prefix != prefix:
            if current is not None:
                yield current
            current = StoredDocument(prefix, parts[0], parts[1], version[2])
        current.last_key = item.key
        if parts[3] == "manifest.json":
            current.manifest = item
        elif _IMAGE.fullmatch(parts[3]):
            current.images.append(item)
        else:
            on_foreign(item)
    if current is not None:
        yield current


def image_name_of(key: str) -> str | None:
    """``page-042-image-003`` of an image's key; None for another key."""
    match = _IMAGE.fullmatch("/".join(key.split("/")[3:]))
    return match[1] if match else None


def policy_name(policy_version: str) -> str:
    return policy_version.rpartition("-")[0]


ListFrom = Callable[[str | None], Iterator[ListedObject]]


def without_reserved(list_from: ListFrom, start_after: str | None) -> Iterator[ListedObject]:
    """A whole bucket's listing, jumping over our own prefixes (``_jobs/`` and the like), which no
    bundle id can begin with."""
    for item in list_from(start_after):
        if item.key.startswith("_"):
            break
        yield item
    else:
        return
    # "`" follows "_"; a bundle id begins with neither.
    after = "`" if start_after is None or start_after < "`" else start_after
    yield from list_from(after)
