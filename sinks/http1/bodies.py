"""Bodies of requests, and how any bytes are taken in pieces that are worth a turn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import IO

BLOCK_BYTES = 256 * 1024

Body = bytes | Iterator[bytes] | None


def joined(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces of at least `BLOCK_BYTES` but for the last: every small one that is
    sent, hashed or written by itself costs a thread its turn at the interpreter."""
    waiting: list[bytes] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= BLOCK_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)


class BodyFailed(Exception):
    """Carries what a body's iterator raised past the handlers for the socket's errors."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def pieces_of(body: Body) -> Iterator[bytes]:
    if body is None:
        return
    try:
        if isinstance(body, bytes):
            for start in range(0, len(body), BLOCK_BYTES):
                yield body[start : start + BLOCK_BYTES]
        else:
            yield from body
    except OSError as error:  # the disk's, not the connection's
        raise BodyFailed(error) from None


def blocks_of(file: IO[bytes], size: int, block_bytes: int = BLOCK_BYTES) -> Iterator[bytes]:
    """The next ``size`` bytes; fewer where it ends before. No more is asked for than there is: a
    block that must be cut afterwards leaves a hole in the heap, in which the next one finds no
    room."""
    while size > 0 and (block := file.read(min(block_bytes, size))):
        size -= len(block)
        yield block
