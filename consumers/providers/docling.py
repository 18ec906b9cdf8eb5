"""docling-serve (open source), asynchronous task API, as of 1.31.

Facts of its contract that shape this adapter: no idempotency key; a result is removed some minutes
after it was first fetched (300 s by default), so it is fetched once, by the poll that sees the
task succeed, and its images come inline; with several workers or replicas a task may be unknown
(404) to the one that is asked; validation failures are 404 too; full is 503 with `Retry-After`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from consumers.providers import answers
from consumers.providers.errors import CallFailed, JobNotFound, SubmitUnknown
from consumers.providers.failures import SUBMIT, UNRECOGNISED, bounded_code
from consumers.providers.files import write_inline
from consumers.providers.http import Answer, ApiClient
from consumers.providers.protocol import (
    PAGE_NOT_TOLD,
    Abilities,
    Document,
    FetchedImage,
    JobState,
    JobStatus,
    RemoteImage,
    Submission,
    SubmitOptions,
)
from consumers.providers.settings import DoclingSettings
from consumers.providers.transport import unusable
from consumers.providers.uploads import multipart
from schemas.problems import Problem, ProblemCode

TOKEN_VARIABLE = "DOCLING_SERVE_API_KEY"  # noqa: S105 - the variable's name

_STATES: Mapping[str, JobState] = {
    "pending": JobState.RUNNING,
    "started": JobState.RUNNING,
    "success": JobState.SUCCEEDED,
    "failure": JobState.FAILED,
    "partial_success": JobState.FAILED,
    "skipped": JobState.FAILED,
}

_FORM = (
    ("from_formats", "pdf"),
    ("to_formats", "json"),
    ("image_export_mode", "embedded"),
    ("include_images", "true"),
    ("target_type", "inbody"),
)


class DoclingProvider:
    def __init__(self, api: ApiClient, settings: DoclingSettings, *, name: str = "docling") -> None:
        self.name = name
        self._api = api
        self._form = (*_FORM, ("do_ocr", "true" if settings.ocr else "false"))
        self.abilities = Abilities(
            idempotent_submit=False,
            gives_retry_hint=True,
            long_poll_seconds=settings.long_poll_seconds,
            results_kept_seconds=settings.results_kept_seconds,
            reports_pages=True,
        )

    def submit(self, document: Document, *, key: str, options: SubmitOptions) -> Submission:
        answer = self._api.call(
            "POST",
            "v1/convert/file/async",
            operation=SUBMIT,
            body=multipart(document, field="files", fields=[*self._form, *options.extra]),
        )
        task = answers.usable_id(_object(answer, SUBMIT).get("task_id"))
        if task is None:
            raise SubmitUnknown("no_job_id", status=answer.status, operation=SUBMIT)
        return Submission(task, retry_after=answer.retry_after)

    def find(self, key: str) -> str | None:
        return None

    def poll(self, job_id: str) -> JobStatus:
        wait = self.abilities.long_poll_seconds
        answer = self._api.call(
            "GET",
            f"v1/status/poll/{_in_path(job_id)}" + (f"?wait={wait:g}" if wait else ""),
            operation="poll",
            extra_read_seconds=wait,
        )
        task = _object(answer, "poll")
        told = task.get("task_id")
        if told is not None and told != job_id:
            raise CallFailed("answer_of_another_job", status=answer.status, operation="poll")
        status = self._status(task.get("task_status"), answer)
        if status.state is not JobState.SUCCEEDED:
            return status
        result = self._api.call("GET", f"v1/result/{_in_path(job_id)}", operation="poll")
        return self._finished(_object(result, "poll"), result)

    def images(self, job_id: str, document: Document | None) -> tuple[RemoteImage, ...]:
        return self.poll(job_id).images

    def fetch_image(
        self, job_id: str, image: RemoteImage, destination: Path, *, max_bytes: int
    ) -> FetchedImage:
        return write_inline(
            image, image.data or b"", destination, max_bytes=max_bytes, operation="fetch_image"
        )

    def forget(self, job_id: str) -> None:
        """There is no call for one task; the service removes results itself."""

    def close(self) -> None:
        self._api.close()

    def _status(self, word: Any, answer: Answer) -> JobStatus:
        text = word.lower() if isinstance(word, str) else ""
        state = _STATES.get(text, JobState.RUNNING)
        shown = bounded_code(word, UNRECOGNISED)
        status = JobStatus(
            state,
            shown if text in _STATES else self._api.unless_secret(shown),
            known=text in _STATES,
            retry_after=answer.retry_after,
        )
        if text == "partial_success":
            return replace(status, failure_code="partial_result", failure_kind="attempt")
        if state is JobState.FAILED:
            return replace(status, failure_code=f"task_{text}")
        return status

    def _finished(self, result: Mapping[str, Any], answer: Answer) -> JobStatus:
        """The status by the result itself, which may be a failure though the task succeeded."""
        status = self._status(result.get("status"), answer)
        if status.state is JobState.FAILED:
            return status
        content = answers.object_in(result, "document", operation="poll").get("json_content")
        if status.state is not JobState.SUCCEEDED or not isinstance(content, dict):
            raise CallFailed("result_missing", status=answer.status, operation="poll")
        pages = content.get("pages")
        images, problems = _pictures(answers.objects_in(content, "pictures", operation="poll"))
        return replace(
            status,
            images=images,
            pages=len(pages) if isinstance(pages, dict | list) else None,
            problems=problems,
        )


def _in_path(job_id: str) -> str:
    if answers.usable_id(job_id) is None:
        raise JobNotFound("job_id_invalid", operation="poll")
    return quote(job_id, safe="")


def _object(answer: Answer, operation: str) -> dict[str, Any]:
    body = answer.json()
    if not isinstance(body, dict):
        raise unusable("answer_not_json", operation, status=answer.status)
    return body


def _pictures(
    listed: Sequence[Mapping[str, Any]],
) -> tuple[tuple[RemoteImage, ...], tuple[Problem, ...]]:
    """The pictures by page; on a page in the document's own reading order."""
    images: list[RemoteImage] = []
    problems: list[Problem] = []
    for picture in listed:
        places = answers.objects_in(picture, "prov", operation="poll")
        page = answers.count_of(places[0].get("page_no")) if places else None
        page = page or PAGE_NOT_TOLD
        image = picture.get("image")
        if not isinstance(image, dict):
            problems.append(Problem(code=ProblemCode.PICTURE_WITHOUT_IMAGE, page=page or None))
            continue
        try:
            entry = {"page": page or None, "url": image.get("uri")}
            images += answers.images_of([entry | {"mime_type": image.get("mimetype")}])
        except ValueError:
            raise CallFailed("images_unreadable", operation="poll") from None
    if any(image.data is None for image in images):
        raise CallFailed("images_not_inline", operation="poll")
    return answers.numbered(sorted(images, key=lambda image: image.page)), tuple(problems)
