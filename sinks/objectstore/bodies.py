"""Hashing and names of what is stored, shared by the implementations."""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import suppress
from pathlib import Path

from sinks.objectstore.errors import StoreRejected
from sinks.objectstore.protocol import Body

CHUNK_BYTES = 256 * 1024
MAX_KEY_BYTES = 1024
"""Limit of S3 for a key in UTF-8."""

_DOT_SEGMENT = re.compile(r"(?:^|/)\.\.?(?:/|$)")
_UNSAFE_CHARACTER = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def is_sha256(text: str | None) -> bool:
    return text is not None and _SHA256.fullmatch(text) is not None


def sha256_of(body: Body) -> str:
    """SHA-256 in hex; a file is read in chunks. Raises OSError."""
    if isinstance(body, bytes):
        return hashlib.sha256(body).hexdigest()
    with body.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def size_of(body: Body) -> int:
    return len(body) if isinstance(body, bytes) else body.stat().st_size


def check_key(operation: str, bucket: str, key: str) -> None:
    """Refuse keys that HTTP clients and stores rewrite on the way, so that they would name
    another object (`..` even another bucket). Raises StoreRejected."""
    refusal = None
    if not key:
        refusal = "the key is empty"
    elif len(key.encode("utf-8", "surrogatepass")) > MAX_KEY_BYTES:
        refusal = f"the key is longer than {MAX_KEY_BYTES} bytes"
    elif _DOT_SEGMENT.search(key):
        refusal = "the key has a '.' or '..' segment"
    elif _UNSAFE_CHARACTER.search(key):
        refusal = "the key has a control or surrogate character"
    if refusal:
        raise StoreRejected(operation, bucket, refusal, kind="document")


class PrivateFile:
    """A new file only its owner can read, removed again unless `keep` was called.

    Raises FileExistsError when the path is taken: a download never replaces or follows anything.
    Where it is to ``replace``, what has the path is removed first, and still not followed.
    """

    def __init__(self, path: Path, *, replace: bool = False) -> None:
        self._path = path
        self._replace = replace
        self._kept = False

    def __enter__(self) -> PrivateFile:
        try:
            self._descriptor = self._create()
        except FileExistsError:
            if not self._replace:
                raise
            self._path.unlink(missing_ok=True)
            self._descriptor = self._create()
        return self

    def _create(self) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(self._path, flags, 0o600)

    def write(self, chunk: bytes) -> None:
        view = memoryview(chunk)
        while view:  # only a part may be taken at a time
            view = view[os.write(self._descriptor, view) :]

    def keep(self) -> None:
        self._kept = True

    def __exit__(self, *_: object) -> None:
        try:
            os.close(self._descriptor)
        finally:
            if not self._kept:
                with suppress(FileNotFoundError):
                    self._path.unlink()
