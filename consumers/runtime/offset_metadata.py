"""Offsets that are done ahead of the committed one, written into the commit's metadata.

Without this a restart behind one slow event would run everything done after it again. The text
travels with the committed offset, survives the process and is read by whoever owns the partition
next. It is a saving, never a promise: whatever cannot be read is ignored and the work is repeated.

Text: ``bx1.`` + URL-safe base64 of zlib(base offset, 8 bytes big-endian + bit map), where bit ``i``
stands for offset ``base + i``. zlib's checksum covers the base, and the base must equal the offset
it was committed with, so metadata that was copied, cut or kept over an offset reset is never
applied to the wrong offsets.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Collection
from enum import StrEnum

BROKER_LIMIT = 4096
"""Bytes that a broker accepts by default (``offset.metadata.max.bytes``)."""

_TERMINATOR = 1  # the client sends the text with its terminating zero byte, which counts

_PREFIX = "bx1."
_MAX_BITMAP = 64 * 1024  # what a decoder will inflate at most; far above any window that fits


class MetadataVerdict(StrEnum):
    """What was found in a commit's metadata; all but ``RESTORED`` restore nothing."""

    EMPTY = "empty"
    RESTORED = "restored"
    FOREIGN = "foreign"
    """Written by something else, or by a later version."""
    CORRUPT = "corrupt"
    OTHER_BASE = "other_base"
    """Belongs to another committed offset, e.g. after an offset reset."""


def encode(base: int, done: Collection[int], limit: int = BROKER_LIMIT) -> str | None:
    """Metadata for a commit of ``base``; ``done`` holds offsets from ``base`` on.

    :returns: ``""`` when nothing is done ahead; None when it does not fit into ``limit`` bytes.
    """
    if not done:
        return ""
    size = (max(done) - base) // 8 + 1
    if size > _MAX_BITMAP:
        return None
    bitmap = bytearray(size)
    for offset in done:
        bit = offset - base
        bitmap[bit >> 3] |= 1 << (bit & 7)
    packed = zlib.compress(base.to_bytes(8, "big") + bitmap, 9)
    text = _PREFIX + base64.urlsafe_b64encode(packed).decode("ascii")
    return text if len(text) + _TERMINATOR <= limit else None


def decode(committed: int, metadata: str | None) -> tuple[set[int], MetadataVerdict]:
    """The offsets from ``committed`` on that were done already. Never raises."""
    if not metadata:
        return set(), MetadataVerdict.EMPTY
    if not metadata.startswith(_PREFIX):
        return set(), MetadataVerdict.FOREIGN
    try:
        packed = base64.b64decode(metadata[len(_PREFIX) :], altchars=b"-_", validate=True)
        inflater = zlib.decompressobj()
        raw = inflater.decompress(packed, 8 + _MAX_BITMAP)
    except (binascii.Error, ValueError, zlib.error):
        return set(), MetadataVerdict.CORRUPT
    if not inflater.eof or inflater.unused_data or len(raw) < 8:
        return set(), MetadataVerdict.CORRUPT
    if int.from_bytes(raw[:8], "big") != committed:
        return set(), MetadataVerdict.OTHER_BASE
    done = {
        committed + 8 * index + bit
        for index, byte in enumerate(raw[8:])
        if byte
        for bit in range(8)
        if byte >> bit & 1
    }
    return done, MetadataVerdict.RESTORED
