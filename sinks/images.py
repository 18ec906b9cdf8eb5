"""Images, under keys that carry their content's hash: no writer can clobber another's."""

from __future__ import annotations

from pathlib import Path

from schemas.identity import image_key
from sinks.objectstore import ObjectStore, PutKind, StoreError


class ImageConflict(StoreError):
    """Other bytes stand under a key that carries this image's hash: damage, or a foreign writer."""

    default_kind = "document"
    outcome = "image_conflict"
    summary = "other bytes stand under the key of this image"


class ImageStore:
    def __init__(self, store: ObjectStore, bucket: str) -> None:
        self._store = store
        self._bucket = bucket

    def write(self, prefix: str, name: str, file: Path, sha256: str, media_type: str) -> str:
        """Store the image next to its manifest (`prefix` is that key's folder, without the last
        slash) and return its key; an equal one that is there already is a success.

        `sha256` (hex) must be that of `file`. Raises ImageConflict, StoreError, OSError.
        """
        key = image_key(prefix, name, sha256, media_type)
        outcome = self._store.put_if_absent(
            self._bucket, key, file, content_type=media_type, sha256=sha256
        )
        if outcome.kind is PutKind.CONFLICT:
            raise ImageConflict("put_if_absent", self._bucket)
        return key
