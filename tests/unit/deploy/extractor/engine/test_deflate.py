"""Fast Deflate: what it gives, and the state in which it leaves the processor."""

from __future__ import annotations

import ctypes
import mmap
import platform
import random
import zlib
from pathlib import Path

import pytest
from isal import isal_zlib

from deploy.extractor.engine import deflate

CONTENT = bytes(range(256)) * 400


def wide_registers_are_in_use() -> bool:
    """Whether upper halves of the AVX registers hold something: XGETBV with 1, then bit 2."""
    code = bytes.fromhex("b9 01 00 00 00  0f 01 d0  c3")  # mov ecx, 1; xgetbv; ret
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    return bool(ctypes.CFUNCTYPE(ctypes.c_uint32)(address)() & 4)


def can_tell() -> bool:
    about = Path("/proc/cpuinfo")
    if platform.machine() != "x86_64" or not about.is_file() or "xgetbv1" not in about.read_text():
        return False
    isal_zlib.crc32(CONTENT)
    return wide_registers_are_in_use()


def test_what_is_compressed_in_pieces_is_one_zlib_stream() -> None:
    assert zlib.decompress(b"".join(deflate.compress([CONTENT, b"", CONTENT]))) == CONTENT * 2


def test_the_same_content_gives_the_same_bytes_wherever_in_memory_it_is_compressed() -> None:
    """Compressors that live at the same time are at different places. Of which beginning a place
    loses sight differs, so there are many; each comes again, or nobody would miss it."""
    rng = random.Random(1)
    for size in [300] * 1500 + [20_000, 80_000]:
        head = rng.randbytes(16)
        content = head + rng.randbytes(6) + head + bytes(size)
        compressors = [deflate.compress([content]) for _ in range(32)]
        begun = [next(compressor) for compressor in compressors]
        streams = {start + b"".join(rest) for start, rest in zip(begun, compressors, strict=True)}
        assert [zlib.decompress(stream) for stream in streams] == [content]


def test_content_that_is_damaged_cut_off_or_too_large_is_none() -> None:
    data = zlib.compress(CONTENT)
    assert deflate.decompress(data, len(CONTENT)) == CONTENT
    assert deflate.decompress(data, len(CONTENT) - 1) is None
    assert deflate.decompress(data[:-1], len(CONTENT)) is None
    assert deflate.decompress(b"no zlib", len(CONTENT)) is None


def test_the_checksum_is_of_all_parts() -> None:
    assert deflate.crc32(b"IDAT", CONTENT) == zlib.crc32(b"IDAT" + CONTENT)


@pytest.mark.skipif(not can_tell(), reason="this processor cannot tell, or has nothing to clear")
def test_no_wide_register_stays_in_use() -> None:
    """Otherwise all that follows is slow: PDFium's decoders, colour management."""
    data = zlib.compress(CONTENT)
    isal_zlib.crc32(CONTENT)
    assert wide_registers_are_in_use()
    deflate.crc32(CONTENT)
    assert not wide_registers_are_in_use()
    deflate.decompress(data, len(CONTENT))
    assert not wide_registers_are_in_use()
    for _ in deflate.compress([CONTENT]):
        assert not wide_registers_are_in_use()
