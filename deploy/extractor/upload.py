"""Receives a submitted document straight into a private file, hashing it on the way."""

from __future__ import annotations

import asyncio
import base64
import binascii
import errno
import hashlib
import json
import os
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import multipart  # type: ignore[import-untyped]

from deploy.extractor.contract import PDF_HEADER_WINDOW, ApiError, RequestError
from deploy.extractor.datadir import PRIVATE_FILE, fsync_directory

_WRITE_AT_ONCE = 256 * 1024
_MAX_FIELD_BYTES = 1024
_MAX_SEGMENTS = 20
_PDF_HEADER = re.compile(rb"%PDF-\d")


@dataclass(frozen=True, slots=True)
class Upload:
    """A document on disk, durable, and the other fields that came with it."""

    sha256: str
    bytes: int
    fields: dict[str, Any]


async def receive_multipart(
    body: AsyncIterator[bytes], content_type: str, destination: Path, max_bytes: int
) -> Upload:
    """Store the part `file` of a multipart/form-data body; other small parts become fields.

    Raises ApiError: not multipart, no such part, larger than `max_bytes`, or not a PDF.
    """
    _, options = multipart.parse_options_header(content_type)
    file = _PrivateFile(destination, max_bytes)
    fields: dict[str, Any] = {}
    seen_file = False
    segment: multipart.MultipartSegment | None = None
    value = b""
    try:
        parser = multipart.PushMultipartParser(
            options.get("boundary", ""), max_segment_count=_MAX_SEGMENTS
        )
        async for chunk in body:
            if not chunk:  # ASGI may deliver an empty last chunk; to the parser it means the end
                continue
            for event in parser.parse(chunk):
                if isinstance(event, multipart.MultipartSegment):
                    segment, value = event, b""
                    if event.name == "file":
                        if seen_file:
                            raise _invalid("more than one part named file", "file")
                        seen_file = True
                elif event is None:
                    assert segment is not None
                    if segment.name and segment.name != "file":
                        fields[segment.name] = value.decode("utf-8", "replace")
                elif segment is not None and segment.name == "file":
                    await file.write(event)
                else:
                    value += event
                    if len(value) > _MAX_FIELD_BYTES:
                        raise _invalid("a form field is longer than 1 KiB", "fields")
        parser.close()
        if not seen_file:
            raise _invalid("the form has no part named file", "file")
        return await file.finish(fields)
    except multipart.MultipartError:
        raise _invalid("the body is not valid multipart/form-data", "body") from None
    finally:
        file.close()


async def receive_json(
    body: AsyncIterator[bytes], destination: Path, max_body_bytes: int, max_bytes: int
) -> Upload:
    """Store the document in `pdf_base64` of a JSON object; its other members become fields.

    JSON has to be held in memory to be parsed, hence a limit of its own. Raises ApiError.
    """
    chunks: list[bytes] = []
    size = 0
    async for chunk in body:
        size += len(chunk)
        if size > max_body_bytes:
            raise ApiError(
                413,
                RequestError.TOO_LARGE,
                "the JSON body is larger than this service accepts; send multipart/form-data",
                which="max_json_bytes",
            )
        chunks.append(chunk)
    document, fields = await asyncio.to_thread(_document_in_json, b"".join(chunks))
    chunks.clear()
    file = _PrivateFile(destination, max_bytes)
    try:
        await file.write(document)
        return await file.finish(fields)
    finally:
        file.close()


def _document_in_json(body: bytes) -> tuple[bytes, dict[str, Any]]:
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        raise _invalid("the body is not valid JSON", "body") from None
    encoded = fields.pop("pdf_base64", None) if isinstance(fields, dict) else None
    if not isinstance(encoded, str):
        raise _invalid("the JSON body has no string member pdf_base64", "pdf_base64")
    try:
        return base64.b64decode(encoded, validate=True), fields
    except (binascii.Error, ValueError):
        raise _invalid("pdf_base64 is not valid base64", "pdf_base64") from None


class _PrivateFile:
    """Hashes and writes in a thread, a quarter of a MiB at a time; refuses more than its limit."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._digest = hashlib.sha256()
        self._size = 0
        self._head = b""
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
        self._file = os.fdopen(descriptor, "wb", buffering=0)

    async def write(self, data: bytes | bytearray) -> None:
        self._size += len(data)
        if self._size > self._max_bytes:
            raise ApiError(
                413,
                RequestError.TOO_LARGE,
                "the document is larger than this service accepts",
                which="max_upload_bytes",
            )
        if len(self._head) < PDF_HEADER_WINDOW:
            self._head += data[: PDF_HEADER_WINDOW - len(self._head)]
        self._pending.append(bytes(data))
        self._pending_bytes += len(data)
        if self._pending_bytes >= _WRITE_AT_ONCE:
            await asyncio.to_thread(self._flush)

    async def finish(self, fields: dict[str, Any]) -> Upload:
        """Make the file durable, name included."""
        if not _PDF_HEADER.search(self._head):
            raise ApiError(
                422,
                RequestError.NOT_A_PDF,
                "no %PDF- header in the first 1,024 bytes of the document",
            )
        await asyncio.to_thread(self._flush_durably)
        return Upload(self._digest.hexdigest(), self._size, fields)

    def close(self) -> None:
        self._file.close()

    def _flush(self) -> None:
        data = b"".join(self._pending)
        self._pending.clear()
        self._pending_bytes = 0
        self._digest.update(data)
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) :]

    def _flush_durably(self) -> None:
        self._flush()
        os.fsync(self._file.fileno())
        fsync_directory(self._path.parent)


def is_storage_full(problem: OSError) -> bool:
    return problem.errno in (errno.ENOSPC, errno.EDQUOT)


def _invalid(message: str, which: str) -> ApiError:
    return ApiError(400, RequestError.INVALID_REQUEST, message, which=which)
