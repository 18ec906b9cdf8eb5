"""One PUT to an S3 store: how it is sent, and how what is stored is compared with it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sinks.http1 import Response, blocks_of
from sinks.objectstore import answers
from sinks.objectstore.conditional import Found
from sinks.objectstore.errors import ObjectNotFound, ObjectTooLarge
from sinks.objectstore.protocol import Body, ObjectInfo
from sinks.objectstore.transport import Transport, stamp

SHA256_METADATA = "x-amz-meta-sha256"
"""Set on every write; spares reading an object back to compare it."""


@dataclass(slots=True)
class Write:
    """One PUT, ready to be sent. `look_up(operation, bucket, key)` is a HEAD."""

    transport: Transport
    operation: str
    bucket: str
    key: str
    body: Body
    size: int
    sha256: str
    headers: dict[str, str]
    look_up: Callable[[str, str, str], ObjectInfo]

    def send(self) -> str:
        if isinstance(self.body, bytes):
            response = self._put(self.body)
        else:
            with self.body.open("rb", buffering=0) as file:
                response = self._put(blocks_of(file, self.size))
        self.transport.check_no_error_inside(self.operation, self.bucket, response)
        return answers.etag_of(response.headers.get("ETag"))

    def _put(self, body: bytes | Iterator[bytes]) -> Response:
        return self.transport.send(
            "PUT",
            self.bucket,
            self.key,
            operation=self.operation,
            headers=self.headers,
            body=body,
            length=self.size,
            sha256=self.sha256,
        )

    def look(self) -> Found | None:
        try:
            info = self.look_up(self.operation, self.bucket, self.key)
        except ObjectNotFound:
            return None
        if info.size != self.size:
            return Found(info.etag, identical=False)
        if info.sha256 is not None:
            return Found(info.etag, identical=info.sha256 == self.sha256)
        return self._compare_bytes()

    def _compare_bytes(self) -> Found | None:
        """For objects without our metadata (another writer's, or a store that drops it)."""
        try:
            response = self.transport.send("GET", self.bucket, self.key, operation="get")
        except ObjectNotFound:
            return None
        etag, _, _ = stamp(response)
        digest = hashlib.sha256()
        try:
            for chunk in self.transport.chunks(
                self.operation, self.bucket, response, max_bytes=self.size
            ):
                digest.update(chunk)
        except ObjectTooLarge:
            return Found(etag, identical=False)
        finally:
            response.close()
        return Found(etag, identical=digest.hexdigest() == self.sha256)
