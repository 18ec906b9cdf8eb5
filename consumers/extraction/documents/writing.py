"""What is written to an open file, and what a full disk or a limit makes of it."""

from __future__ import annotations

import errno
import hashlib
import io
from typing import BinaryIO

from consumers.extraction.documents.model import DocumentRejected

_BUFFERED_BYTES = 64 * 1024


class TooLarge(Exception):
    """More than a `MeasuringWriter` takes."""


class MeasuringWriter(io.RawIOBase):
    """Hashes and counts what passes to a file, and stops at a limit.

    It remembers why it stopped, because an engine that writes may raise something else for it. It
    has a buffer, because qpdf writes a few bytes at a time; `finish` writes what is left there, and
    not `flush`, which qpdf calls where nothing may be raised.
    """

    def __init__(self, file: BinaryIO, max_bytes: int | None = None) -> None:
        self._file = file
        self._max_bytes = max_bytes
        self.size = 0
        self.digest = hashlib.sha256()
        self._buffer = bytearray()
        self._stopped_by: Exception | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        """Raises TooLarge and OSError."""
        self.size += len(data)
        if self._max_bytes is not None and self.size > self._max_bytes:
            self._stopped_by = TooLarge()
            raise self._stopped_by
        self._buffer += data
        if len(self._buffer) >= _BUFFERED_BYTES:
            self.finish()
        return len(data)

    def finish(self) -> None:
        """Write what is still in the buffer. Raises OSError."""
        data, self._buffer = memoryview(self._buffer), bytearray()
        self.digest.update(data)
        try:
            while data:  # an unbuffered file may take less than it is given
                data = data[self._file.write(data) :]
        except OSError as error:
            self._stopped_by = error
            raise

    def raise_if_stopped(self) -> None:
        """Raises DocumentRejected with `too_large` for the limit and for that of the process, and
        OSError for a disk that is full or broken, which is no fault of the document."""
        stopped_by = self._stopped_by
        if stopped_by is None:
            return
        if isinstance(stopped_by, OSError) and stopped_by.errno != errno.EFBIG:
            raise stopped_by
        detail = {"bytes": self.size}
        if self._max_bytes is not None:
            detail["max_bytes"] = self._max_bytes
        raise DocumentRejected("too_large", detail) from stopped_by
