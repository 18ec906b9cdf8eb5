"""What remembers that a record was replayed: one object per original record, in the output bucket.

It is created (conditionally) before the record is published again and completed after the broker
has acknowledged it. Of two operators, one gets it. One that died in between leaves it open; then
the events topic tells whether the record was published.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from consumers.extraction.timestamps import parse_rfc3339, rfc3339
from consumers.operations.dead_letters import Original
from consumers.operations.layout import REPLAYS
from consumers.operations.storage import patiently
from schemas.canonical import canonical_json
from sinks.objectstore import ObjectNotFound, ObjectStore, PreconditionFailed, PutKind
from sinks.stored_models import JSON

OPEN_FOR_S = 300.0
"""How long an open marker belongs to whoever made it."""


@dataclass(slots=True)
class Marker:
    """``published``: the broker has acknowledged the record. ``mine``: so we publish it."""

    original: Original
    dead_letter_id: str
    at: float
    published: bool
    mine: bool
    etag: str


class ReplayMarkers:
    def __init__(
        self, store: ObjectStore, bucket: str, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._store, self._bucket, self._clock = store, bucket, clock

    def look(self, original: Original) -> Marker | None:
        """:raises StoreError: the store failed for longer than patience lasts."""
        try:
            found = patiently(
                lambda: self._store.get(self._bucket, _key(original), max_bytes=65_536)
            )
        except ObjectNotFound:
            return None
        said: dict[str, Any] = json.loads(found.body)
        return Marker(
            original,
            str(said["dead_letter_id"]),
            parse_rfc3339(str(said["at"])) or 0.0,
            bool(said["published"]),
            False,
            found.etag,
        )

    def claim(self, original: Original, dead_letter_id: str) -> Marker:
        """Ours, or the one that stands.

        :raises StoreError: as `look`.
        """
        mine = Marker(original, dead_letter_id, self._clock(), False, True, "")
        outcome = patiently(
            lambda: self._store.put_if_absent(
                self._bucket, _key(original), _body(mine), content_type=JSON
            )
        )
        if outcome.kind is PutKind.CREATED or outcome.resolved_ambiguity:
            mine.etag = outcome.etag
            return mine
        return self.look(original) or self.claim(original, dead_letter_id)

    def take_over(self, marker: Marker, dead_letter_id: str) -> Marker | None:
        """An open one whose maker has had its time becomes ours; None when it was too early, or
        somebody else was faster.

        :raises StoreError: as `look`.
        """
        if self._clock() - marker.at < OPEN_FOR_S:
            return None
        mine = Marker(marker.original, dead_letter_id, self._clock(), False, True, marker.etag)
        return mine if self._replace(mine) else None

    def published(self, marker: Marker) -> None:
        """:raises StoreError: as `look`."""
        marker.published = True
        self._replace(marker)

    def release(self, marker: Marker) -> None:
        """The broker has refused the record for good: it was not replayed.

        :raises StoreError: as `look`.
        """
        patiently(lambda: self._store.delete(self._bucket, _key(marker.original)))

    def _replace(self, marker: Marker) -> bool:
        try:
            marker.etag = patiently(
                lambda: self._store.replace_if_match(
                    self._bucket,
                    _key(marker.original),
                    _body(marker),
                    etag=marker.etag,
                    content_type=JSON,
                )
            )
        except (PreconditionFailed, ObjectNotFound):
            return False
        return True


def _key(original: Original) -> str:
    stamp = "" if original.timestamp_ms is None else f"-{original.timestamp_ms}"
    return f"{REPLAYS}{original.topic}/{original.partition}-{original.offset}{stamp}"


def _body(marker: Marker) -> bytes:
    return canonical_json(
        {
            "dead_letter_id": marker.dead_letter_id,
            "at": rfc3339(marker.at),
            "published": marker.published,
        }
    )
