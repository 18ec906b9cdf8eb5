"""Calls that are not on the hot path, through the minio client.

Its errors become ours, without their texts: those carry keys and URLs. Imported when the first such
call is made: the client takes longer to import than a short command may run.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import urllib3
from minio import Minio
from minio.deleteobjects import DeleteObject
from minio.error import InvalidResponseError, MinioException, S3Error, ServerError
from urllib3.exceptions import HTTPError

from sinks.objectstore import answers
from sinks.objectstore.bodies import CHUNK_BYTES
from sinks.objectstore.conditional import WriteRaced
from sinks.objectstore.errors import StoreError, StoreRejected, StoreUnavailable
from sinks.objectstore.settings import S3Settings


def _only_errors(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.ERROR


# urllib3 logs request lines at DEBUG and, of an answer it cannot parse, the URL at WARNING. A
# filter, unlike a level, also holds for somebody who turns everything on to find a fault.
logging.getLogger("urllib3.connectionpool").addFilter(_only_errors)


class EverydayCalls:
    """On connections of its own; makes one attempt. Safe to use from many threads."""

    def __init__(self, settings: S3Settings) -> None:
        self._region = settings.region
        self._pools = urllib3.PoolManager(
            num_pools=16,
            maxsize=settings.max_connections,
            blocksize=CHUNK_BYTES,  # pieces in which a file is sent
            retries=False,
            timeout=urllib3.Timeout(connect=settings.connect_timeout, read=settings.read_timeout),
            cert_reqs="CERT_REQUIRED",
            ca_certs=str(settings.ca_file) if settings.ca_file else None,
        )
        self.client = Minio(
            settings.url.netloc,
            access_key=settings.access_key,
            secret_key=settings.secret_key,
            session_token=settings.session_token,
            secure=settings.secure,
            region=settings.region,
            http_client=self._pools,
        )
        if settings.addressing == "virtual":
            self.client.enable_virtual_style_endpoint()  # type: ignore[no-untyped-call]
        else:
            self.client.disable_virtual_style_endpoint()  # type: ignore[no-untyped-call]

    def close(self) -> None:
        self._pools.clear()

    def delete_many(self, bucket: str, keys: Iterable[str]) -> None:
        with as_ours("delete_many", bucket):
            refused = self.client.remove_objects(bucket, (DeleteObject(key) for key in keys))
            codes = {error.code or "Unknown" for error in refused} - {"NoSuchKey"}
        if codes:
            raise _failure("delete_many", bucket, status=200, code=min(codes))

    def ensure_bucket(self, bucket: str) -> None:
        with as_ours("ensure_bucket", bucket):
            if self.client.bucket_exists(bucket):
                return
            try:
                self.client.make_bucket(bucket, location=self._region)
            except S3Error as error:
                if error.code not in ("BucketAlreadyOwnedByYou", "BucketAlreadyExists"):
                    raise

    def bucket_exists(self, bucket: str) -> bool:
        with as_ours("bucket_exists", bucket):
            return bool(self.client.bucket_exists(bucket))


@contextmanager
def as_ours(operation: str, bucket: str) -> Iterator[None]:
    """What the client raises within becomes a `StoreError`."""
    try:
        yield
    except (MinioException, HTTPError, ValueError) as error:
        raise _translated(operation, bucket, error) from None


def _translated(operation: str, bucket: str, error: Exception) -> StoreError:
    if isinstance(error, S3Error):
        status = error.response.status if error.response is not None else 400
        return _failure(operation, bucket, status=status, code=error.code or "")
    if isinstance(error, ServerError):
        return _failure(operation, bucket, status=error.status_code, code="")
    if isinstance(error, InvalidResponseError):
        return StoreUnavailable(operation, bucket, "the answer is no S3 answer")
    if isinstance(error, HTTPError):
        return StoreUnavailable(operation, bucket, f"connection failed: {type(error).__name__}")
    return StoreRejected(operation, bucket, "an invalid name or argument", kind="document")


def _failure(operation: str, bucket: str, *, status: int, code: str) -> StoreError:
    """As `answers.failure`, for calls that are no conditional writes."""
    found = answers.failure(operation, bucket, status=status, code=answers.plain_code(code))
    if isinstance(found, WriteRaced):
        raise TypeError(f"{operation} is a conditional write")
    return found
