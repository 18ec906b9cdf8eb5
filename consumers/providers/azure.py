"""Azure AI Document Intelligence, API version 2024-11-30.

Facts of its contract that shape this adapter: a submit is answered by 202 with an empty body and
the result's id in `Operation-Location`; a failed job is HTTP 200; the images are crops of the
figures that the layout model detects, fetched one by one as PNG; there is no idempotency key, so a
submit whose answer was lost may have started (and billed) a job that cannot be found again; the
free tier silently analyses two pages only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from consumers.providers import answers
from consumers.providers.errors import CallFailed, DocumentRefused, JobNotFound, SubmitUnknown
from consumers.providers.failures import (
    COMMON_CODES,
    SUBMIT,
    UNRECOGNISED,
    Codes,
    Meaning,
    best_code,
    bounded_code,
    error_code,
    meaning_of,
)
from consumers.providers.http import ApiClient
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
from consumers.providers.settings import AzureSettings
from consumers.providers.uploads import raw
from schemas.problems import Problem, ProblemCode

TOKEN_VARIABLE = "AZURE_DOCUMENT_INTELLIGENCE_KEY"  # noqa: S105 - the variable's name

_STATES: Mapping[str, JobState] = {
    "notstarted": JobState.RUNNING,
    "running": JobState.RUNNING,
    "succeeded": JobState.SUCCEEDED,
    "failed": JobState.FAILED,
    "canceled": JobState.FAILED,
    "skipped": JobState.FAILED,
}

# The service's error guide: what is in `innererror` says whether the document is at fault.
CODES: Codes = {
    **COMMON_CODES,
    **dict.fromkeys(
        (
            "invalidcontent",
            "unsupportedcontent",
            "invalidcontentlength",
            "invalidcontentdimensions",
            "invalidparametervalue",
            "contentprotected",
            "outputoptionnotfound",
        ),
        Meaning(DocumentRefused),
    ),
    "internalservererror": Meaning(CallFailed),
    "timeout": Meaning(CallFailed),
    "notfound": Meaning(JobNotFound),
}


class AzureProvider:
    abilities = Abilities(
        idempotent_submit=False,
        gives_retry_hint=True,
        max_polls_per_second=25.0,  # of 50 GETs a second: figures are fetched by GET too
        max_pages_per_job=2_000,
        max_bytes_per_job=500 * 1000 * 1000,
        results_kept_seconds=24 * 3600.0,
        forgets=True,
        reports_pages=True,
    )

    def __init__(self, api: ApiClient, settings: AzureSettings, *, name: str = "azure") -> None:
        self.name = name
        self._api = api
        self._version = settings.api_version
        self._model = f"documentintelligence/documentModels/{quote(settings.model, safe='')}"

    def submit(self, document: Document, *, key: str, options: SubmitOptions) -> Submission:
        answer = self._api.call(
            "POST",
            self._url(":analyze", output="figures"),
            operation=SUBMIT,
            body=raw(document),
            codes=CODES,
        )
        location = answers.location_of(answer.headers)
        if location is None:
            raise SubmitUnknown("no_job_id", status=answer.status, operation=SUBMIT)
        # Another host's answer is refused here, before the key could be sent there by a poll.
        job_id = answers.last_path_part(self._api.own_url(location, operation=SUBMIT))
        if job_id is None:
            raise SubmitUnknown("job_id_invalid", status=answer.status, operation=SUBMIT)
        return Submission(job_id, retry_after=answer.retry_after)

    def find(self, key: str) -> str | None:
        return None

    def poll(self, job_id: str) -> JobStatus:
        answer = self._api.call("GET", self._result_url(job_id), operation="poll", codes=CODES)
        body = answer.json()
        if not isinstance(body, dict):
            raise CallFailed("answer_not_json", status=answer.status, operation="poll")
        word = body.get("status")
        text = word.lower() if isinstance(word, str) else ""
        state = _STATES.get(text, JobState.RUNNING)
        shown = bounded_code(word, UNRECOGNISED)
        if text not in _STATES:
            shown = self._api.unless_secret(shown)
        if state is JobState.RUNNING:
            return JobStatus(state, shown, known=text in _STATES, retry_after=answer.retry_after)
        if state is JobState.FAILED:
            return _failed(shown, self._api.code_in(body, CODES))
        result = body.get("analyzeResult")
        if not isinstance(result, dict):
            raise CallFailed("result_missing", status=answer.status, operation="poll")
        images, problems = figures_of(result)
        pages = result.get("pages")
        return JobStatus(
            state,
            shown,
            images=images,
            pages=len(pages) if isinstance(pages, list) else None,
            finished_at=answers.moment_of({"finished_at": body.get("lastUpdatedDateTime")}),
            problems=problems,
        )

    def images(self, job_id: str, document: Document | None) -> tuple[RemoteImage, ...]:
        return self.poll(job_id).images

    def fetch_image(
        self, job_id: str, image: RemoteImage, destination: Path, *, max_bytes: int
    ) -> FetchedImage:
        received = self._api.download(
            self._result_url(job_id, f"/figures/{quote(image.ref or '', safe='')}"),
            destination,
            operation="fetch_image",
            max_bytes=max_bytes,
            headers={"Accept": "image/png"},
            codes=CODES,
        )
        return FetchedImage(
            destination, received.bytes, received.sha256, received.media_type or image.media_type
        )

    def forget(self, job_id: str) -> None:
        with contextlib.suppress(JobNotFound):
            self._api.call("DELETE", self._result_url(job_id), operation="forget", codes=CODES)

    def close(self) -> None:
        self._api.close()

    def _result_url(self, job_id: str, rest: str = "") -> str:
        if answers.usable_id(job_id) is None:
            raise JobNotFound("job_id_invalid", operation="poll")
        return self._url(f"/analyzeResults/{quote(job_id, safe='')}{rest}")

    def _url(self, rest: str, **query: str) -> str:
        return f"{self._model}{rest}?{urlencode({'api-version': self._version, **query})}"


def azure_error_code(body: Any) -> str | None:
    """The innermost code of an error body: it is the one that tells what is wrong."""
    error = body.get("error") if isinstance(body, dict) else None
    found: list[str] = []
    while isinstance(error, dict) and len(found) < 8:
        found.append(bounded_code(error.get("code"), "", known=CODES))
        error = error.get("innererror")
    return best_code(reversed(found)) or error_code(body)


def figures_of(result: Mapping[str, Any]) -> tuple[tuple[RemoteImage, ...], tuple[Problem, ...]]:
    """The figures of a result in the order of page and place on it, and what cannot be fetched:
    a figure without an id has no image."""
    found: list[tuple[int, tuple[float, float], str]] = []
    problems: list[Problem] = []
    for figure in answers.objects_in(result, "figures", operation="poll"):
        page, corner = _place(figure)
        figure_id = answers.usable_id(figure.get("id"))
        if figure_id is None:
            problems.append(Problem(code=ProblemCode.FIGURE_WITHOUT_ID, page=page or None))
        else:
            found.append((page, corner, figure_id))
    images = answers.numbered(
        RemoteImage(page, 0, ref=figure_id, media_type="image/png")
        for page, _, figure_id in sorted(found)
    )
    return images, tuple(problems)


def _place(figure: Mapping[str, Any]) -> tuple[int, tuple[float, float]]:
    regions = answers.objects_in(figure, "boundingRegions", operation="poll")
    region = regions[0] if regions else {}
    page = answers.count_of(region.get("pageNumber"))
    if page is None:
        return PAGE_NOT_TOLD, (0.0, 0.0)
    polygon = region.get("polygon")
    numbers = (
        [n for n in polygon if isinstance(n, int | float)] if isinstance(polygon, list) else []
    )
    top, left = min(numbers[1::2], default=0.0), min(numbers[0::2], default=0.0)
    return page, (float(top), float(left))


def _failed(shown: str, code: str | None) -> JobStatus:
    meaning = meaning_of(code, CODES)
    kind = "document"
    if shown.lower() != "failed":
        kind = "attempt"
    elif meaning is not None and meaning.error.kind != "document":
        kind = "systemic" if meaning.error.kind == "systemic" else "attempt"
    return JobStatus(
        JobState.FAILED, shown, failure_code=code or f"job_{shown.lower()}", failure_kind=kind
    )
