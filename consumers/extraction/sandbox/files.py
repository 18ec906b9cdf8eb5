"""The open files that go to a sandbox process, which never sees a path."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from consumers.extraction.sandbox import channel

_PROBED_BYTES = 64 * 1024


def total_bytes(descriptors: Sequence[int]) -> int:
    """The size of open files together."""
    return sum(os.fstat(descriptor).st_size for descriptor in descriptors)


@contextlib.contextmanager
def open_for_reading(paths: Sequence[Path]) -> Iterator[list[int]]:
    """Descriptors of files, open for the block. Raises OSError."""
    descriptors: list[int] = []
    try:
        for path in paths:
            descriptors.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        yield descriptors
    finally:
        channel.close_all(descriptors)


def check_room(descriptor: int) -> None:
    """See whether an open file takes more bytes, as somebody says that it does not.

    Raises OSError: it is so.
    """
    size, end = os.fstat(descriptor).st_size, os.fstat(descriptor).st_size + _PROBED_BYTES
    while size < end:
        size += os.pwrite(descriptor, bytes(end - size), size)


@contextlib.contextmanager
def created(path: Path) -> Iterator[int]:
    """A new private file, which is removed again when the block fails."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        yield descriptor
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)
