"""Google Document AI, layout parser, by its REST interface.

Plain REST rather than the client library: six calls, no gRPC in the worker, and no retries of the
library's own (it repeats a batch on DEADLINE_EXCEEDED, which may run and bill it twice).

Facts of its contract that shape this adapter: input and output are Cloud Storage objects, here
below a prefix derived from the idempotency key; an operation may be SUCCEEDED although the document
in it failed (`individualProcessStatuses`); there is no idempotency key, but the output's folder is
named by the operation, so a finished job is found again by its prefix; "message larger than max"
comes as RESOURCE_EXHAUSTED and is no throttle; the layout parser does not say how many pages it
read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from consumers.providers import answers
from consumers.providers.discovery import by_region
from consumers.providers.errors import (
    CallFailed,
    DocumentRefused,
    JobNotFound,
    SubmitUnknown,
)
from consumers.providers.failures import SUBMIT, UNRECOGNISED, bounded_code
from consumers.providers.files import write_inline
from consumers.providers.google_layout import images_of_shard, shard_number
from consumers.providers.google_storage import CODES, ObjectStore
from consumers.providers.http import Answer, ApiClient
from consumers.providers.protocol import (
    Abilities,
    Document,
    FetchedImage,
    JobState,
    JobStatus,
    Objection,
    RemoteImage,
    Submission,
    SubmitOptions,
)
from consumers.providers.settings import GoogleSettings
from consumers.providers.transport import unusable

TOKEN_VARIABLE = "GOOGLE_ACCESS_TOKEN"  # noqa: S105 - the variable's name
STORAGE_URL = "https://storage.googleapis.com"

_STATES: Mapping[str, JobState] = {
    "WAITING": JobState.RUNNING,
    "RUNNING": JobState.RUNNING,
    "CANCELLING": JobState.RUNNING,
    "SUCCEEDED": JobState.SUCCEEDED,
    "CANCELLED": JobState.FAILED,
    "FAILED": JobState.FAILED,
}

# google.rpc.Code: what is wrong with the document, with us, or for now.
_DOCUMENT_CODES = frozenset({3, 9, 11})
_SYSTEMIC_CODES = frozenset({7, 16})
_RPC_NAMES = {
    1: "cancelled", 2: "unknown", 3: "invalid_argument", 4: "deadline_exceeded", 5: "not_found",
    7: "permission_denied", 8: "resource_exhausted", 9: "failed_precondition", 10: "aborted",
    11: "out_of_range", 13: "internal", 14: "unavailable", 16: "unauthenticated",
}  # fmt: skip

_OPERATION = re.compile(r"projects/[\w-]+/locations/[\w-]+/operations/[\w-]+")
_KEY = re.compile(r"[A-Za-z0-9_.-]{1,128}")


class GoogleProvider:
    abilities = Abilities(
        idempotent_submit=False,
        max_pages_per_job=500,
        max_bytes_per_job=1000 * 1000 * 1000,
        forgets=True,
    )

    def __init__(
        self, api: ApiClient, storage: ApiClient, settings: GoogleSettings, *, name: str = "google"
    ) -> None:
        self.name = name
        self._api = api
        self._store = ObjectStore(storage, settings.bucket)
        self._settings = settings
        self._location = f"projects/{settings.project}/locations/{settings.location}"

    def submit(self, document: Document, *, key: str, options: SubmitOptions) -> Submission:
        if not _KEY.fullmatch(key):
            raise DocumentRefused("key_not_a_folder_name", operation=SUBMIT)
        source = f"{self._folder(key)}input.pdf"
        self._store.put_new(source, document)
        bucket = self._settings.bucket
        request = {
            "inputDocuments": {
                "gcsDocuments": {
                    "documents": [
                        {"gcsUri": f"gs://{bucket}/{source}", "mimeType": "application/pdf"}
                    ]
                }
            },
            "documentOutputConfig": {
                "gcsOutputConfig": {"gcsUri": f"gs://{bucket}/{self._folder(key)}output/"}
            },
            "processOptions": {"layoutConfig": {"returnImages": True, "returnBoundingBoxes": True}},
            "skipHumanReview": True,
        }
        answer = self._api.call(
            "POST",
            f"v1/{self._location}/processors/{self._settings.processor}:batchProcess",
            operation=SUBMIT,
            headers={"Content-Type": "application/json"},
            body=json.dumps(request).encode(),
            codes=CODES,
        )
        name = _object(answer, SUBMIT).get("name")
        if not isinstance(name, str) or not _OPERATION.fullmatch(name):
            raise SubmitUnknown("no_job_id", status=answer.status, operation=SUBMIT)
        return Submission(name, retry_after=answer.retry_after)

    def find(self, key: str) -> str | None:
        """By the output's folder, which is named by the operation: finished jobs only."""
        if not _KEY.fullmatch(key):
            return None
        prefix = f"{self._folder(key)}output/"
        for name in self._store.names(prefix, operation="find"):
            operation = f"{self._location}/operations/{name.removeprefix(prefix).split('/')[0]}"
            if _OPERATION.fullmatch(operation):
                return operation
        return None

    def poll(self, job_id: str) -> JobStatus:
        body, answer = self._operation(job_id, "poll")
        metadata = body.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        word = metadata.get("state")
        shown = bounded_code(word, UNRECOGNISED)
        if str(word) not in _STATES:
            shown = self._api.unless_secret(shown)
        if body.get("done") is not True:
            return JobStatus(
                JobState.RUNNING,
                shown,
                known=str(word) in _STATES,
                retry_after=answer.retry_after,
            )
        status = JobStatus(
            JobState.SUCCEEDED,
            shown,
            images_listed=False,
            finished_at=answers.moment_of({"finished_at": metadata.get("updateTime")}),
        )
        if isinstance(body.get("error"), dict):
            return _failed(status, body["error"])
        for item in _items(metadata):
            item_status = item.get("status")
            if isinstance(item_status, dict) and item_status.get("code"):
                return _failed(status, item_status)
        if _STATES.get(str(word), JobState.SUCCEEDED) is not JobState.SUCCEEDED:
            return replace(
                status, state=JobState.FAILED, failure_code="job_failed", failure_kind="attempt"
            )
        return status

    def images(self, job_id: str, document: Document | None) -> tuple[RemoteImage, ...]:
        body, _ = self._operation(job_id, "images")
        found: list[RemoteImage] = []
        folders = self._output_folders(body)
        if not folders:
            raise CallFailed("output_not_named", operation="images")
        for folder in folders:
            names = list(self._store.names(folder, operation="images"))
            for name in sorted(names, key=shard_number):
                found += images_of_shard(self._store.read(name, operation="images"))
        return answers.numbered(sorted(found, key=lambda image: image.page))

    def fetch_image(
        self, job_id: str, image: RemoteImage, destination: Path, *, max_bytes: int
    ) -> FetchedImage:
        return write_inline(
            image, image.data or b"", destination, max_bytes=max_bytes, operation="fetch_image"
        )

    def forget(self, job_id: str) -> None:
        """Deletes input and output; the operation's record holds no content."""
        try:
            body, _ = self._operation(job_id, "forget")
        except JobNotFound:
            return
        for folder in {self._job_folder(folder) for folder in self._output_folders(body)}:
            for name in list(self._store.names(folder, operation="forget")):
                self._store.delete(name, operation="forget")

    def check(self, *, forbidden_regions: Iterable[str] = ()) -> tuple[Objection, ...]:
        """Processing stays in the location that the processor is in."""
        regions = frozenset({self._settings.location})
        return by_region(regions, forbidden_regions, provider=self.name)

    def close(self) -> None:
        self._api.close()
        self._store.api.close()

    def _operation(self, job_id: str, operation: str) -> tuple[dict[str, Any], Answer]:
        if not _OPERATION.fullmatch(job_id):
            raise JobNotFound("job_id_invalid", operation=operation)
        answer = self._api.call("GET", f"v1/{job_id}", operation=operation, codes=CODES)
        body = _object(answer, operation)
        # The project may come back by its number: what must agree is the operation.
        name = str(body.get("name", ""))
        if name.rpartition("/")[2] != job_id.rpartition("/")[2]:
            raise CallFailed("answer_of_another_job", status=answer.status, operation=operation)
        return body, answer

    def _output_folders(self, body: Mapping[str, Any]) -> list[str]:
        """Where the output is, below our own prefix only, as folders of our bucket."""
        metadata = body.get("metadata")
        root = f"gs://{self._settings.bucket}/"
        folders = []
        for item in _items(metadata if isinstance(metadata, dict) else {}):
            uri = item.get("outputGcsDestination")
            if isinstance(uri, str) and uri.startswith(root + self._settings.prefix):
                folders.append(uri.removeprefix(root).rstrip("/") + "/")
        return folders

    def _job_folder(self, output_folder: str) -> str:
        key = output_folder.removeprefix(self._settings.prefix).split("/")[0]
        return self._folder(key)

    def _folder(self, key: str) -> str:
        return f"{self._settings.prefix}{key}/"


def _failed(status: JobStatus, error: Mapping[str, Any]) -> JobStatus:
    code = answers.count_of(error.get("code"))
    kind = "attempt"
    if code in _DOCUMENT_CODES:
        kind = "document"
    elif code in _SYSTEMIC_CODES:
        kind = "systemic"
    name = _RPC_NAMES.get(code or 0, "job_failed")
    return replace(
        status,
        state=JobState.FAILED,
        images_listed=True,
        failure_code=name,
        failure_kind=kind,
    )


def _items(metadata: Mapping[str, Any]) -> list[dict[str, Any]]:
    items = metadata.get("individualProcessStatuses")
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _object(answer: Answer, operation: str) -> dict[str, Any]:
    body = answer.json()
    if not isinstance(body, dict):
        raise unusable("answer_not_json", operation, status=answer.status)
    return body
