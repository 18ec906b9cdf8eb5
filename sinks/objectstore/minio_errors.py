"""Errors of the minio client as ours, without their texts: those carry keys and URLs."""

from __future__ import annotations

from minio.error import InvalidResponseError, S3Error, ServerError
from urllib3.exceptions import HTTPError

from sinks.objectstore import answers
from sinks.objectstore.conditional import WriteRaced
from sinks.objectstore.errors import StoreError, StoreRejected, StoreUnavailable


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
    if isinstance(error, HTTPError):
        return StoreUnavailable(operation, bucket, f"connection failed: {type(error).__name__}")
    return StoreRejected(operation, bucket, "an invalid name or argument", kind="document")
