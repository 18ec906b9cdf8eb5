"""Private files for what a service sends: bounded, hashed on the way, complete or not there."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from consumers.providers.errors import DocumentRefused, Truncated
from consumers.providers.protocol import FetchedImage, RemoteImage
from sinks.http1 import joined
from sinks.objectstore.bodies import PrivateFile


@dataclass(frozen=True, slots=True)
class ReceivedFile:
    path: Path
    bytes: int
    sha256: str
    media_type: str | None


def receive(
    pieces: Iterable[bytes],
    headers: Mapping[str, str],
    destination: Path,
    *,
    max_bytes: int,
    operation: str,
    expected_bytes: int | None = None,
    expected_sha256: str | None = None,
) -> ReceivedFile:
    """Write ``pieces`` to ``destination`` (0600, replaced if there); nothing stays on a failure.

    The body must be provably whole: by its announced length, by chunked framing, or by a length or
    checksum that the service gave with the image.

    Raises:
        DocumentRefused: more than ``max_bytes``.
        Truncated: not what was announced, or nothing was announced that would tell.
    """
    announced = headers.get("content-length", "")
    length = int(announced) if announced.isascii() and announced.isdigit() else None
    if length is not None and length > max_bytes:
        raise DocumentRefused("image_too_large", operation=operation)
    framed = length is not None or "chunked" in headers.get("transfer-encoding", "").lower()
    if not framed and expected_bytes is None and expected_sha256 is None:
        raise Truncated("length_unknown", operation=operation)
    with PrivateFile(destination, replace=True) as file:
        size, digest = _write(pieces, file, max_bytes=max_bytes, operation=operation)
        for expected in (length, expected_bytes):
            if expected is not None and size != expected:
                raise Truncated("length_mismatch", operation=operation)
        if expected_sha256 is not None and digest != expected_sha256.lower():
            raise Truncated("checksum_mismatch", operation=operation)
        file.keep()
    return ReceivedFile(destination, size, digest, media_type_of(headers.get("content-type")))


def write_inline(
    image: RemoteImage, data: bytes, destination: Path, *, max_bytes: int, operation: str
) -> FetchedImage:
    """Like `receive`, for an image whose bytes are already here."""
    received = receive(
        (data,),
        {"content-length": str(len(data))},
        destination,
        max_bytes=max_bytes,
        operation=operation,
        expected_bytes=image.bytes,
        expected_sha256=image.sha256,
    )
    return FetchedImage(destination, received.bytes, received.sha256, image.media_type)


def media_type_of(header: str | None) -> str | None:
    """The bare media type of a Content-Type header, bounded; None where there is none."""
    bare = (header or "").split(";")[0].strip().lower()
    return bare if bare and len(bare) <= 100 and bare.isascii() and bare.isprintable() else None


def _write(
    pieces: Iterable[bytes], file: PrivateFile, *, max_bytes: int, operation: str
) -> tuple[int, str]:
    digest = hashlib.sha256()
    size = 0
    for piece in joined(pieces):
        size += len(piece)
        if size > max_bytes:
            raise DocumentRefused("image_too_large", operation=operation)
        digest.update(piece)
        file.write(piece)
    return size, digest.hexdigest()
