"""Request bodies that carry a document without ever holding it in memory.

Both forms have a length known in advance and are the same bytes for the same document and fields,
so that a service that compares repeated submits under one key finds them equal.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from consumers.providers.errors import CallFailed
from consumers.providers.protocol import Document
from sinks.http1 import blocks_of

READ_BYTES = 192 * 1024  # a multiple of 3, so that base64 of each piece needs no padding

FILE_NAME = "document.pdf"
"""Sent in place of the source's name, which may hold a patient's."""


@dataclass(frozen=True, slots=True)
class Upload:
    """A body of ``length`` bytes: ``before``, then the file (as base64 if so set), ``after``."""

    content_type: str
    before: bytes
    path: Path
    file_bytes: int
    after: bytes
    base64: bool = False

    @property
    def length(self) -> int:
        file_length = 4 * ((self.file_bytes + 2) // 3) if self.base64 else self.file_bytes
        return len(self.before) + file_length + len(self.after)

    def chunks(self) -> Iterator[bytes]:
        """The body's bytes; the file is opened and checked before the first is asked for.

        Raises:
            CallFailed: the file cannot be read, or is not as long as it was.
        """
        try:
            file = self.path.open("rb", buffering=0)
        except OSError:
            raise CallFailed("document_file_unreadable", operation="submit") from None
        if os.fstat(file.fileno()).st_size != self.file_bytes:
            file.close()
            raise CallFailed("document_file_changed", operation="submit")
        return self._pieces(file)

    def _pieces(self, file: IO[bytes]) -> Iterator[bytes]:
        with file:
            if self.before:
                yield self.before
            for piece in blocks_of(file, self.file_bytes, READ_BYTES):
                yield base64.b64encode(piece) if self.base64 else piece
        if self.after:
            yield self.after


def multipart(
    document: Document, *, field: str = "file", fields: Sequence[tuple[str, str]] = ()
) -> Upload:
    """`multipart/form-data` (RFC 7578) with ``fields`` first and the document last."""
    if not all(value.isprintable() for field_value in fields for value in field_value):
        raise ValueError("form fields must not hold control characters")
    boundary = f"bundle-{document.sha256[:40]}"
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields
    ]
    parts.append(
        f'--{boundary}\r\nContent-Disposition: form-data; name="{field}"; '
        f'filename="{FILE_NAME}"\r\nContent-Type: application/pdf\r\n\r\n'
    )
    return Upload(
        content_type=f"multipart/form-data; boundary={boundary}",
        before="".join(parts).encode(),
        path=document.path,
        file_bytes=document.bytes,
        after=f"\r\n--{boundary}--\r\n".encode(),
    )


def json_base64(
    document: Document, *, field: str = "pdf", fields: Sequence[tuple[str, str]] = ()
) -> Upload:
    """Canonical JSON (sorted keys, no spaces, trailing newline), the document as base64."""
    marker = "\x00"
    text = json.dumps(
        {**dict(fields), field: marker}, sort_keys=True, separators=(",", ":"), ensure_ascii=True
    )
    before, after = text.split(json.dumps(marker)[1:-1])
    return Upload(
        content_type="application/json",
        before=before.encode(),
        path=document.path,
        file_bytes=document.bytes,
        after=f"{after}\n".encode(),
        base64=True,
    )


def raw(document: Document) -> Upload:
    """The document alone."""
    return Upload("application/pdf", b"", document.path, document.bytes, b"")
