"""The object store: reading sources, and writing with conditions that are really kept."""

from sinks.objectstore.errors import (
    AccessDenied,
    AmbiguousWrite,
    BucketNotFound,
    ChecksumMismatch,
    ErrorKind,
    ObjectNotFound,
    ObjectTooLarge,
    PreconditionFailed,
    StoreError,
    StoreRejected,
    StoreThrottled,
    StoreUnavailable,
)
from sinks.objectstore.memory import MemoryStore
from sinks.objectstore.protocol import (
    Body,
    Download,
    ListedObject,
    ObjectInfo,
    ObjectStore,
    PutKind,
    PutOutcome,
    StoredObject,
)

__all__ = [
    "AccessDenied",
    "AmbiguousWrite",
    "Body",
    "BucketNotFound",
    "ChecksumMismatch",
    "Download",
    "ErrorKind",
    "ListedObject",
    "MemoryStore",
    "ObjectInfo",
    "ObjectNotFound",
    "ObjectStore",
    "ObjectTooLarge",
    "PreconditionFailed",
    "PutKind",
    "PutOutcome",
    "StoreError",
    "StoreRejected",
    "StoreThrottled",
    "StoreUnavailable",
    "StoredObject",
]
