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
from sinks.objectstore.s3 import Observe, S3Store
from sinks.objectstore.settings import S3Settings

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
    "Observe",
    "PreconditionFailed",
    "PutKind",
    "PutOutcome",
    "S3Settings",
    "S3Store",
    "StoreError",
    "StoreRejected",
    "StoreThrottled",
    "StoreUnavailable",
    "StoredObject",
]
