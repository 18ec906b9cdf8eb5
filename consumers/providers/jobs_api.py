"""The HTTP contract that Infrai and the self-hosted service share.

`POST pdf/extract_images` takes a document and gives a job, `GET pdf/job/get/{id}` tells about it.
Answers may be bare or enveloped, empty with the id in a header, or the finished result at once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urljoin

from consumers.providers import answers
from consumers.providers.downloads import DownloadClient
from consumers.providers.errors import CallFailed, JobNotFound, ResultGone, SubmitUnknown
from consumers.providers.failures import (
    COMMON_CODES,
    SUBMIT,
    Codes,
    meaning_of,
    says_retryable,
)
from consumers.providers.files import write_inline
from consumers.providers.http import Answer, ApiClient
from consumers.providers.protocol import (
    FetchedImage,
    JobState,
    JobStatus,
    RemoteImage,
    Submission,
)
from consumers.providers.transport import unusable
from consumers.providers.uploads import Upload

SYNCHRONOUS = "sync:"
"""Starts the job id of a result that came with the submit's answer and has no id at the service:
it cannot be asked for again, only submitted again (which the key makes harmless)."""


@dataclass(frozen=True, slots=True)
class Routes:
    """Paths below the base URL."""

    submit: str = "pdf/extract_images"
    job: str = "pdf/job/get/{job_id}"
    forget: str = "pdf/job/{job_id}"
    images: str = "pdf/job/images/{job_id}"
    """Asked where a finished job neither lists its images nor links to a list."""
    image: str = "pdf/job/images/{job_id}/{ref}"
    """One image that was listed by its id only."""


class JobsApi:
    """Composed into the adapters; holds no state but its clients."""

    def __init__(
        self,
        api: ApiClient,
        downloads: DownloadClient,
        *,
        routes: Routes | None = None,
        codes: Codes = COMMON_CODES,
    ) -> None:
        self.api = api
        self._downloads = downloads
        self._routes = routes or Routes()
        self._codes = codes

    def submit(self, upload: Upload, *, key: str, traceparent: str | None = None) -> Submission:
        headers = {"Idempotency-Key": key}
        if traceparent is not None:
            headers["traceparent"] = traceparent
        answer = self.api.call(
            "POST",
            self._routes.submit,
            operation=SUBMIT,
            headers=headers,
            body=upload,
            codes=self._codes,
        )
        payload = self._payload(answer, operation=SUBMIT)
        job_id = answers.job_id_of(payload)
        if job_id is None:
            location = answers.location_of(answer.headers)
            if location is not None:
                job_id = answers.last_path_part(self.api.own_url(location, operation=SUBMIT))
        status = self._status(payload, answer) if payload else None
        finished = status is not None and status.state is not JobState.RUNNING
        if job_id is None:
            if not finished:
                raise SubmitUnknown("no_job_id", status=answer.status, operation=SUBMIT)
            job_id = f"{SYNCHRONOUS}{key}"
        return Submission(job_id, status if finished else None, answer.retry_after)

    def poll(self, job_id: str, *, wait_seconds: float = 0.0) -> JobStatus:
        wait = f"?wait={wait_seconds:g}" if wait_seconds else ""
        answer = self._get(self._path(self._routes.job, job_id) + wait, wait_seconds)
        if not answer.body:
            if answer.status == 200:
                raise CallFailed("empty_answer", status=200, operation="poll")
            word = f"http_{answer.status}"
            return JobStatus(JobState.RUNNING, word, known=False, retry_after=answer.retry_after)
        payload = self._payload(answer, operation="poll")
        if payload is None:
            raise CallFailed("answer_not_json", status=answer.status, operation="poll")
        told = payload.get("job_id")
        if told is not None and answers.usable_id(told) != job_id:
            raise CallFailed("answer_of_another_job", status=answer.status, operation="poll")
        return self._status(payload, answer)

    def images(self, job_id: str) -> tuple[RemoteImage, ...]:
        """The images by the job's own answer, else by the list it links to, else by the route."""
        payload = self._payload(self._get(self._path(self._routes.job, job_id)), operation="images")
        listed = answers.image_list_of(payload or {})
        if listed is None:
            link = answers.first(payload or {}, "images_url", "result_url")
            if isinstance(link, str):
                target = self.api.own_url(link, operation="images")
            else:
                target = self._path(self._routes.images, job_id)
            body = self._get(target, operation="images")
            decoded = body.json()
            if isinstance(decoded, list):
                decoded = {"images": decoded}
            listed = answers.image_list_of(answers.unwrap(decoded)[0] or {})
        if listed is None:
            raise CallFailed("images_not_listed", operation="images")
        return self._images(listed, operation="images")

    def fetch_image(
        self, job_id: str, image: RemoteImage, destination: Path, *, max_bytes: int
    ) -> FetchedImage:
        if image.data is not None:
            return write_inline(
                image, image.data, destination, max_bytes=max_bytes, operation="fetch_image"
            )
        if image.url is not None:
            received = self._downloads.fetch(
                image.url,
                destination,
                max_bytes=max_bytes,
                expected_bytes=image.bytes,
                expected_sha256=image.sha256,
            )
        else:
            path = self._path(self._routes.image, job_id, quote(image.ref or "", safe=""))
            received = self.api.download(
                path,
                destination,
                operation="fetch_image",
                max_bytes=max_bytes,
                headers={"Accept": "*/*"},
                expected_bytes=image.bytes,
                expected_sha256=image.sha256,
            )
        return FetchedImage(
            destination, received.bytes, received.sha256, received.media_type or image.media_type
        )

    def forget(self, job_id: str) -> None:
        if job_id.startswith(SYNCHRONOUS):
            return
        with contextlib.suppress(JobNotFound):
            self.api.call(
                "DELETE",
                self._path(self._routes.forget, job_id),
                operation="forget",
                codes=self._codes,
            )

    def close(self) -> None:
        self.api.close()
        self._downloads.close()

    def _get(self, path: str, wait_seconds: float = 0.0, *, operation: str = "poll") -> Answer:
        return self.api.call(
            "GET",
            path,
            operation=operation,
            extra_read_seconds=wait_seconds,
            codes=self._codes,
        )

    def _path(self, route: str, job_id: str, ref: str = "") -> str:
        if job_id.startswith(SYNCHRONOUS):
            raise ResultGone("synchronous_result_gone", operation="poll")
        if answers.usable_id(job_id) is None:
            raise JobNotFound("job_id_invalid", operation="poll")
        return route.format(job_id=quote(job_id, safe=""), ref=ref)

    def _payload(self, answer: Answer, *, operation: str) -> dict[str, Any] | None:
        """The answer's payload; None for an empty body.

        Raises:
            ProviderError: the body is not a JSON object, or says that the call failed.
        """
        if not answer.body:
            return None
        payload, failed = answers.unwrap(answer.json())
        if payload is None:
            raise unusable("answer_not_json", operation, status=answer.status)
        if failed:
            raise self.api.failure(answer, operation=operation, codes=self._codes)
        return payload

    def _status(self, payload: Mapping[str, Any], answer: Answer) -> JobStatus:
        listed = answers.image_list_of(payload)
        word = answers.first(payload, "status", "state", "job_status", "task_status")
        if word is None:
            word = "completed" if listed is not None else "no_status"
        state, shown, known = answers.state_of(word)
        if not known:
            shown = self.api.unless_secret(shown)
        if state is JobState.SUCCEEDED and payload.get("success") is False:
            state = JobState.FAILED
        status = JobStatus(
            state,
            shown,
            known=known,
            retry_after=answer.retry_after,
            pages=answers.page_count_of(payload),
            finished_at=answers.moment_of(payload),
            problems=answers.problems_of(payload),
        )
        if state is JobState.FAILED:
            return self._failed(status, payload)
        if state is JobState.RUNNING:
            return status
        if listed is None:
            none = payload.get("image_count") == 0
            return replace(status, images_listed=none)
        return replace(status, images=self._images(listed, operation="poll"))

    def _failed(self, status: JobStatus, payload: Mapping[str, Any]) -> JobStatus:
        code = self.api.code_in(payload, self._codes)
        meaning = meaning_of(code, self._codes)
        retryable = says_retryable(payload)
        if status.provider_status in answers.PARTIAL:
            return replace(status, failure_code="partial_result", failure_kind="attempt")
        if meaning is not None:
            # A job that was throttled or lost inside the service is one more attempt for us.
            kind = meaning.error.kind
            kind = kind if kind in ("document", "systemic") else "attempt"
        elif retryable is not None:
            kind = "attempt" if retryable else "document"
        else:
            kind = "attempt" if status.provider_status in answers.STOPPED else "document"
        shown = (meaning.code if meaning else None) or code or "job_failed"
        return replace(status, failure_code=shown, failure_kind=kind)

    def _images(self, listed: list[Any], *, operation: str) -> tuple[RemoteImage, ...]:
        base = f"{self.api.base_url}/"
        try:
            return tuple(
                image if image.url is None else replace(image, url=urljoin(base, image.url))
                for image in answers.images_of(listed)
            )
        except ValueError:
            raise CallFailed("images_unreadable", operation=operation) from None
