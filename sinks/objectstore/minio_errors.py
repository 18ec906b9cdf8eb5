"""Errors of the minio client as ours, without their texts: those carry keys and URLs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from minio.error import InvalidResponseError, MinioException, S3Error, ServerError
from urllib3.exceptions import HTTPError

from sinks.objectstore import answers
from sinks.objectstore.conditional import WriteRaced
from sinks.objectstore.errors import StoreError, StoreUnavailable
from sinks.objectstore.transport import misfortune


@contextmanager
def as_ours(operation: str, bucket: str) -> Iterator[None]:
    """What the client raises within becomes a `StoreError`."""
    try:
        yield
    except (MinioException, HTTPError, ValueError) as error:
        raise translate(operation, bucket, error) from None


def failure(operation: str, bucket: str, *, status: int, code: str) -> StoreError:
    """As `answers.failure`, for calls that are no conditional writes."""
    found = answers.failure(operation, bucket, status=status, code=answers.plain_code(code))
    if isinstance(found, WriteRaced):
        raise TypeError(f"{operation} is a conditional write")
    return found


def translate(operation: str, bucket: str, error: Exception) -> StoreError:
    if isinstance(error, S3Error):
        status = error.response.status if error.response is not None else 400
        return failure(operation, bucket, status=status, code=error.code or "")
    if isinstance(error, ServerError):
        return failure(operation, bucket, status=error.status_code, code="")
    if isinstance(error, InvalidResponseError):
        return StoreUnavailable(operation, bucket, "the answer is no S3 answer")
    return misfortune(operation, bucket, error)
