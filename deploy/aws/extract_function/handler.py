"""The Lambda function of the provider `aws-lambda`: extracts one document of a job's folder.

It is invoked asynchronously with `{"bucket", "prefix", "sha256", "soft_masks", "repeat_drawings"}`
and finds the document at `<prefix>_INPUT.pdf`. It writes, in this order, `_STARTED.json`, the
images below `images/`, and `_SUCCESS.json` (or `_FAILED.json`), each marker with `If-None-Match`:
of two runs of one event, which Lambda does not rule out, the first to finish is the one that
counts.

A document that ends the process of its run (out of memory, a crash in a decoder, the time limit)
leaves only `_STARTED.json`. Lambda tries twice more; the run that finds two others before it gives
the document up as `crashed`. Set the function's time limit below `LEASE_SECONDS`.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from deploy.extractor.engine import (
    EncryptedDocument,
    Extraction,
    ExtractionError,
    ExtractOptions,
    LimitExceeded,
    extract,
)

STARTED, SUCCEEDED, FAILED = "_STARTED.json", "_SUCCESS.json", "_FAILED.json"
INPUT = "_INPUT.pdf"
LEASE_SECONDS = 900.0
MAX_RUNS = 2
_READ_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class JobFolder:
    client: Any
    bucket: str
    prefix: str

    def create(self, name: str, content: Mapping[str, Any]) -> bool:
        """Write a marker that is not there yet; False where it is."""
        return self._put(name, content, IfNoneMatch="*")

    def replace(self, name: str, content: Mapping[str, Any], *, etag: str) -> bool:
        """Write a marker that is still the one that was read; False where it is not."""
        return self._put(name, content, IfMatch=etag)

    def read(self, name: str) -> tuple[dict[str, Any], str] | None:
        """A marker and its ETag, or None."""
        try:
            answer = self.client.get_object(Bucket=self.bucket, Key=self.prefix + name)
        except self.client.exceptions.ClientError as error:
            if _status(error) == 404:
                return None
            raise
        return json.loads(answer["Body"].read()), answer["ETag"]

    def download_input(self, destination: Path) -> str:
        """The SHA-256 of what was written to ``destination``."""
        answer = self.client.get_object(Bucket=self.bucket, Key=self.prefix + INPUT)
        digest = hashlib.sha256()
        with destination.open("wb") as file:
            while piece := answer["Body"].read(_READ_BYTES):
                digest.update(piece)
                file.write(piece)
        return digest.hexdigest()

    def upload(self, name: str, file: Path, media_type: str) -> None:
        with file.open("rb") as body:
            self.client.put_object(
                Bucket=self.bucket, Key=self.prefix + name, Body=body, ContentType=media_type
            )

    def _put(self, name: str, content: Mapping[str, Any], **condition: str) -> bool:
        try:
            self.client.put_object(
                Bucket=self.bucket,
                Key=self.prefix + name,
                Body=json.dumps(content, sort_keys=True).encode(),
                ContentType="application/json",
                **condition,
            )
        except self.client.exceptions.ClientError as error:
            if _status(error) in (409, 412):
                return False
            raise
        return True


def handler(event: Mapping[str, Any], context: Any) -> str:
    """What Lambda calls. The returned word is for its log only."""
    return run(_s3(), event, request_id=context.aws_request_id)


def run(client: Any, event: Mapping[str, Any], *, request_id: str) -> str:
    """Do the job of ``event`` unless it is done or another run has it."""
    folder = JobFolder(client, event["bucket"], event["prefix"])
    if folder.read(SUCCEEDED) or folder.read(FAILED):
        return "done before"
    runs = _take_lease(folder, request_id, time.time())
    if runs is None:
        return "another run has it"
    if runs >= MAX_RUNS:
        _fail(folder, "crashed")
        return "given up"
    with _scratch() as scratch:
        document = scratch / "input.pdf"
        if folder.download_input(document) != event["sha256"]:
            _fail(folder, "input_changed")
            return "input changed"
        images = scratch / "images"
        images.mkdir()
        options = ExtractOptions(
            soft_masks=event.get("soft_masks", "composite"),
            repeat_drawings=bool(event.get("repeat_drawings", False)),
        )
        try:
            extraction = extract(document, images, options)
        except ExtractionError as error:
            _fail(folder, _code_of(error))
            return "document refused"
        _store(folder, extraction)
    return "done"


def _take_lease(folder: JobFolder, request_id: str, now: float) -> int | None:
    """How many runs came before this one, or None where one of them may still be at work."""
    mine = {"request_id": request_id, "started_at": now, "runs": 1}
    if folder.create(STARTED, mine):
        return 0
    found = folder.read(STARTED)
    if found is None:
        return None
    there, etag = found
    # Lambda repeats an event under its first request id, and only after the run before has ended.
    ended = there["request_id"] == request_id or now - there["started_at"] > LEASE_SECONDS
    if not ended or not folder.replace(STARTED, mine | {"runs": there["runs"] + 1}, etag=etag):
        return None
    return int(there["runs"])


def _store(folder: JobFolder, extraction: Extraction) -> None:
    listed: list[dict[str, Any]] = []
    stored: set[Path] = set()
    for image in extraction.images:
        name = f"images/{image.file.name}"
        if image.file not in stored:
            folder.upload(name, image.file, image.media_type)
            stored.add(image.file)
        listed.append(
            {
                "name": name,
                "page": image.page,
                "index": image.index,
                "sha256": image.sha256,
                "bytes": image.bytes,
                "media_type": image.media_type,
                "width": image.width,
                "height": image.height,
                **({"is_mask": True} if image.is_mask else {}),
            }
        )
    folder.create(
        SUCCEEDED,
        {
            "pages": extraction.pages,
            "images": listed,
            "problems": list(extraction.problems),
            "finished_at": _now(),
        },
    )


def _fail(folder: JobFolder, code: str) -> None:
    folder.create(FAILED, {"error": {"code": code}, "finished_at": _now()})


def _code_of(error: ExtractionError) -> str:
    if isinstance(error, EncryptedDocument):
        return "encrypted"
    return "limit_exceeded" if isinstance(error, LimitExceeded) else "unreadable"


def _status(error: Any) -> int:
    return int(error.response["ResponseMetadata"]["HTTPStatusCode"])


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@contextmanager
def _scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="extract-") as folder:
        yield Path(folder)


@cache
def _s3() -> Any:
    import botocore.session

    return botocore.session.get_session().create_client("s3")
