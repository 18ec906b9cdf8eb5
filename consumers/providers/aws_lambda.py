"""S3 and a Lambda function: the document goes to a bucket, the function is invoked asynchronously,
its results and a marker come back below a prefix that is derived from the idempotency key.

The function that belongs to it is `deploy/aws/extract_function`. The job id is the name of
the job's folder, so a submit whose answer was lost is found again, and a repeated one is harmless:
the function runs a document under a lease and writes its marker once. Markers in the folder:
`_STARTED.json`, then `_SUCCESS.json` or `_FAILED.json`, written last.

Facts of the contract: an event invoke is answered by 202 and may be lost (kept at most 6 h) or run
twice; throttles come as 429 with `Retry-After`; a failure of the function itself is HTTP 200 with
`X-Amz-Function-Error`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from consumers.providers import answers
from consumers.providers.aws import INPUT, Clients, JobFolder, call
from consumers.providers.discovery import by_region
from consumers.providers.errors import (
    CallFailed,
    DocumentRefused,
    ImageExpired,
    JobNotFound,
    SubmitUnknown,
)
from consumers.providers.failures import SUBMIT, error_code, meaning_of
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
from consumers.providers.settings import ProviderSettings

STARTED, SUCCEEDED, FAILED = "_STARTED.json", "_SUCCESS.json", "_FAILED.json"
_MARKERS_AND_INPUT = 4
_EVENT_KEPT = timedelta(hours=6, minutes=15)
"""Lambda drops an event that it could not run within 6 h; the rest is for clocks that differ."""
_IMAGE_NAME = re.compile(r"images/[A-Za-z0-9][A-Za-z0-9_.-]{0,200}")


class AwsLambdaProvider:
    abilities = Abilities(
        idempotent_submit=True, gives_retry_hint=True, forgets=True, reports_pages=True
    )

    def __init__(self, settings: ProviderSettings, *, name: str = "aws-lambda") -> None:
        self.name = name
        self._settings = settings.aws
        self._max_json_bytes = settings.max_json_bytes
        clients = Clients(settings)
        self._s3 = clients.s3()
        self._functions = clients.functions()

    def submit(self, document: Document, *, key: str, options: SubmitOptions) -> Submission:
        folder = self._new_folder(key)
        folder.put_input(document)
        event = {
            "bucket": self._settings.bucket,
            "prefix": folder.prefix,
            "sha256": document.sha256,
            "soft_masks": options.soft_masks,
            "repeat_drawings": options.repeat_drawings,
        }
        answer = call(
            SUBMIT,
            self._functions.invoke,
            FunctionName=self._settings.function,
            InvocationType="Event",
            Payload=json.dumps(event, sort_keys=True).encode(),
        )
        if answer.get("FunctionError"):
            raise SubmitUnknown("function_error", status=200, operation=SUBMIT)
        if answer.get("StatusCode") != 202:
            raise SubmitUnknown("not_accepted", operation=SUBMIT)
        return Submission(folder.key)

    def find(self, key: str) -> str | None:
        """By the marker that a run leaves. An event that did not start yet has left none; sending
        it again is harmless."""
        folder = self._folder(key)
        names = set(folder.names(at_most=_MARKERS_AND_INPUT, operation="find"))
        return folder.key if names & {STARTED, SUCCEEDED, FAILED} else None

    def poll(self, job_id: str) -> JobStatus:
        folder = self._folder(job_id)
        # One call tells all: the markers' names sort before `images/`.
        found = dict(folder.objects(at_most=_MARKERS_AND_INPUT, operation="poll"))
        if SUCCEEDED in found:
            return self._succeeded(self._marker(folder, SUCCEEDED))
        if FAILED in found:
            return _failed(self._marker(folder, FAILED))
        if STARTED in found:
            return JobStatus(JobState.RUNNING, "started")
        if INPUT not in found:
            raise JobNotFound("job_not_found", operation="poll")
        if datetime.now(UTC) - found[INPUT] > _EVENT_KEPT:
            raise JobNotFound("event_lost", operation="poll")
        return JobStatus(JobState.RUNNING, "queued")

    def images(self, job_id: str, document: Document | None) -> tuple[RemoteImage, ...]:
        return self.poll(job_id).images

    def fetch_image(
        self, job_id: str, image: RemoteImage, destination: Path, *, max_bytes: int
    ) -> FetchedImage:
        if image.ref is None or not _IMAGE_NAME.fullmatch(image.ref):
            raise CallFailed("image_name_invalid", operation="fetch_image")
        gone = False
        try:
            received = self._folder(job_id).download(
                image.ref,
                destination,
                max_bytes=max_bytes,
                sha256=image.sha256,
                size=image.bytes,
            )
        except JobNotFound:
            gone = True
        if gone:
            raise ImageExpired("image_gone", status=404, operation="fetch_image")
        return FetchedImage(destination, received.bytes, received.sha256, image.media_type)

    def forget(self, job_id: str) -> None:
        self._folder(job_id).delete_all()

    def check(self, *, forbidden_regions: Iterable[str] = ()) -> tuple[Objection, ...]:
        regions = frozenset({str(self._functions.meta.region_name)})
        return by_region(regions, forbidden_regions, provider=self.name)

    def close(self) -> None:
        self._s3.close()
        self._functions.close()

    def _new_folder(self, key: str) -> JobFolder:
        try:
            return self._folder(key)
        except JobNotFound:
            raise DocumentRefused("key_not_a_folder_name", operation=SUBMIT) from None

    def _folder(self, key: str) -> JobFolder:
        return JobFolder.of(self._s3, self._settings, key)

    def _marker(self, folder: JobFolder, name: str) -> dict[str, Any]:
        text = folder.read(name, max_bytes=self._max_json_bytes, operation="poll")
        try:
            marker = json.loads(text)
        except (ValueError, RecursionError):
            marker = None
        if not isinstance(marker, dict):
            raise CallFailed("answer_not_json", operation="poll")
        return marker

    def _succeeded(self, marker: Mapping[str, Any]) -> JobStatus:
        entries = marker.get("images")
        listed = entries if isinstance(entries, list) else [None]
        try:
            images = answers.images_of(
                [
                    {**entry, "id": entry.get("name")} if isinstance(entry, dict) else entry
                    for entry in listed
                ]
            )
        except ValueError:
            images = (RemoteImage(0, 0),)
        if not all(image.ref and _IMAGE_NAME.fullmatch(image.ref) for image in images):
            raise CallFailed("images_unreadable", operation="poll")
        return JobStatus(
            JobState.SUCCEEDED,
            "succeeded",
            images=images,
            pages=answers.page_count_of(marker),
            finished_at=answers.moment_of(marker),
            problems=answers.problems_of(marker),
        )


def _failed(marker: Mapping[str, Any]) -> JobStatus:
    code = error_code(marker) or "job_failed"
    meaning = meaning_of(code)
    attempt = meaning is not None and meaning.error.kind != "document"
    return JobStatus(
        JobState.FAILED,
        "failed",
        finished_at=answers.moment_of(marker),
        failure_code=code,
        failure_kind="attempt" if attempt else "document",
    )
