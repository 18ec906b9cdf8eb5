"""Deflate by ISA-L, several times as fast as zlib, without two things that it does.

Where a stream begins, ISA-L at this level takes one position's hash from a register that holds the
address of its own state (`.write_first_byte` in igzip_icf_body_h1_gr_bt.asm). Now and then that
hides the first bytes from the search for repetitions, so that equal content gives streams, and
images checksums and names, that differ from one process to the next. So the first bytes are
compressed by themselves: for so few another function is used, and what follows does not begin.

ISA-L uses the wide registers of the processor and does not clear their upper halves. Until some
other code does, every older vector instruction (SSE) has to merge with them, and code made of such
instructions, in PDFium and in the colour management for one, runs up to ten times as slowly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from isal import isal_zlib

# ISA-L at level 1 makes files of the size that zlib makes at its level 1, five times as fast.
_LEVEL = 1
_FIRST_BYTES = 4  # the fewest that count as a beginning: there are hashes of four bytes
_SOME_BYTES = np.zeros(256, np.uint8)
_ANY_RESULT = np.zeros(256, np.uint8)


def compress(pieces: Iterable[Any]) -> Iterator[bytes]:
    """One zlib stream of all pieces (bytes or contiguous arrays), in pieces.

    The same pieces give the same bytes, if the first has four or is all there is.
    """
    compressor = isal_zlib.compressobj(_LEVEL)
    begun = b""
    for number, piece in enumerate(pieces):
        content = memoryview(piece).cast("B")
        if number == 0:
            begun = compressor.compress(content[:_FIRST_BYTES])
            begun += compressor.flush(isal_zlib.Z_SYNC_FLUSH)
            content = content[_FIRST_BYTES:]
        compressed = compressor.compress(content)
        _clear_wide_registers()
        yield begun + compressed
        begun = b""
    rest = compressor.flush()
    _clear_wide_registers()
    yield rest


def decompress(data: bytes, most_bytes: int) -> bytes | None:
    """The content of a zlib stream; None where it is damaged, ends early or is larger."""
    decompressor = isal_zlib.decompressobj()
    try:
        content = decompressor.decompress(data, most_bytes)
    except isal_zlib.IsalError:  # type: ignore[misc]  # a class, whatever its stub says
        return None
    finally:
        _clear_wide_registers()
    return content if decompressor.eof else None


def crc32(*parts: bytes) -> int:
    """The checksum of PNG, of all parts together."""
    checksum = 0
    for part in parts:
        checksum = isal_zlib.crc32(part, checksum)
    _clear_wide_registers()
    return checksum


def _clear_wide_registers() -> None:
    """Each vector loop of numpy ends with the instruction for it, where the processor has one."""
    np.subtract(_SOME_BYTES, _SOME_BYTES, out=_ANY_RESULT)
