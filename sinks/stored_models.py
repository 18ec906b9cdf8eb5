"""Reading back what we wrote to the output bucket as the model it was."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import BaseModel, ValidationError

from sinks.objectstore import BucketNotFound, ObjectNotFound, ObjectStore, StoreError

JSON = "application/json"

M = TypeVar("M", bound=BaseModel)


class UnreadableObject(StoreError):
    """An object of ours is not what this version writes: damaged, foreign, or of a newer version.

    It is never overwritten; a person has to look at it.
    """

    default_kind = "document"
    outcome = "unreadable"
    summary = "the stored object is not one that this version can read"


@dataclass(frozen=True, slots=True)
class StoredModel(Generic[M]):
    """`etag` names the version that was read; `sha256` (hex) and `bytes` are of what is stored."""

    model: M
    etag: str
    sha256: str
    bytes: int


def load(
    store: ObjectStore, bucket: str, key: str, model: type[M], *, max_bytes: int
) -> StoredModel[M] | None:
    """The model stored under `key`, or None. Raises UnreadableObject, StoreError."""
    try:
        found = store.get(bucket, key, max_bytes=max_bytes)
    except ObjectNotFound:
        return None
    except BucketNotFound as missing:
        # The output bucket is ours: no document is to blame.
        raise BucketNotFound(missing.operation, bucket, kind="systemic") from None
    try:
        value = model.model_validate_json(found.body)
    except ValidationError:
        raise UnreadableObject("get", bucket, model.__name__) from None
    sha256 = hashlib.sha256(found.body).hexdigest()
    return StoredModel(value, found.etag, sha256, len(found.body))
