"""Amazon Textract, asynchronous document analysis with the LAYOUT feature.

Facts of its contract that shape this adapter: input from S3 only; `ClientRequestToken` (1 to 64 of
`[a-zA-Z0-9-_]`) gives the same job for the same call and an error for another; throttles are HTTP
400 without `Retry-After`; it tells where figures are and never gives their pixels, so they are cut
out of the locally rendered page; results expire by themselves after 7 days and cannot be deleted.

The job id is `<key>/<JobId>`, so that the input can be deleted by the job id alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from consumers.extraction.documents.model import Region, RegionOutside
from consumers.providers import answers
from consumers.providers.aws import Clients, JobFolder, call
from consumers.providers.discovery import by_region
from consumers.providers.errors import (
    CallFailed,
    DocumentRefused,
    JobNotFound,
    SubmitUnknown,
)
from consumers.providers.failures import SUBMIT, UNRECOGNISED, bounded_code
from consumers.providers.files import write_inline
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
from consumers.providers.regions import RegionCutter
from consumers.providers.settings import ProviderSettings

_STATES: Mapping[str, JobState] = {
    "IN_PROGRESS": JobState.RUNNING,
    "SUCCEEDED": JobState.SUCCEEDED,
    "FAILED": JobState.FAILED,
    "PARTIAL_SUCCESS": JobState.FAILED,
}
# Words of `StatusMessage` that are not the document's fault.
_ATTEMPT_CODES = frozenset({"INTERNAL_ERROR", "INTERNAL_SERVER_ERROR", "TIMEOUT", "THROTTLED"})
_BLOCKS_PER_PAGE = 1000


class TextractProvider:
    abilities = Abilities(
        idempotent_submit=True,
        max_pages_per_job=3_000,
        max_bytes_per_job=500 * 1024 * 1024,
        results_kept_seconds=7 * 24 * 3600.0,
        forgets=True,  # what can be deleted: our copy of the document
        images_need_document=True,
        reports_pages=True,
    )

    def __init__(
        self, settings: ProviderSettings, cut_regions: RegionCutter, *, name: str = "textract"
    ) -> None:
        self.name = name
        self._settings = settings.aws
        self._cut_regions = cut_regions
        clients = Clients(settings)
        self._s3 = clients.s3()
        self._textract = clients.textract()

    def submit(self, document: Document, *, key: str, options: SubmitOptions) -> Submission:
        try:
            folder = self._folder(key)
        except JobNotFound:
            raise DocumentRefused("key_not_a_request_token", operation=SUBMIT) from None
        folder.put_input(document)
        answer = call(
            SUBMIT,
            self._textract.start_document_analysis,
            DocumentLocation={
                "S3Object": {"Bucket": self._settings.bucket, "Name": folder.input_name}
            },
            FeatureTypes=["LAYOUT"],
            ClientRequestToken=folder.key,
        )
        job_id = answers.usable_id(answer.get("JobId"))
        if job_id is None:
            raise SubmitUnknown("no_job_id", operation=SUBMIT)
        return Submission(f"{folder.key}/{job_id}")

    def find(self, key: str) -> str | None:
        """Cannot be asked for; the same token gives the same job."""
        return None

    def poll(self, job_id: str) -> JobStatus:
        answer = self._get(job_id, "poll", MaxResults=1)
        word = answer.get("JobStatus")
        state = _STATES.get(str(word), JobState.RUNNING)
        shown = bounded_code(word, UNRECOGNISED)
        if state is JobState.RUNNING:
            return JobStatus(state, shown, known=word in _STATES)
        metadata = answers.object_in(answer, "DocumentMetadata", operation="poll")
        pages = answers.count_of(metadata.get("Pages"))
        if state is JobState.SUCCEEDED:
            return JobStatus(state, shown, images_listed=False, pages=pages)
        if word == "PARTIAL_SUCCESS":
            code, kind = "partial_result", "attempt"
        else:
            code = bounded_code(answer.get("StatusMessage"), "job_failed")
            kind = "attempt" if code in _ATTEMPT_CODES else "document"
        return JobStatus(state, shown, pages=pages, failure_code=code, failure_kind=kind)

    def images(self, job_id: str, document: Document | None) -> tuple[RemoteImage, ...]:
        if document is None:
            raise CallFailed("document_needed", operation="images")
        regions = sorted(self._figures(job_id, document.pages))
        if not regions:
            return ()
        try:
            cut = self._cut_regions(document.path, regions, self._settings.render_dpi)
        except RegionOutside:
            raise CallFailed("regions_not_in_document", operation="images") from None
        return answers.numbered(
            RemoteImage(region.page, 0, data=png, media_type="image/png")
            for region, png in zip(regions, cut, strict=True)
        )

    def fetch_image(
        self, job_id: str, image: RemoteImage, destination: Path, *, max_bytes: int
    ) -> FetchedImage:
        return write_inline(
            image, image.data or b"", destination, max_bytes=max_bytes, operation="fetch_image"
        )

    def forget(self, job_id: str) -> None:
        self._folder(job_id.partition("/")[0]).delete_all()

    def check(self, *, forbidden_regions: Iterable[str] = ()) -> tuple[Objection, ...]:
        regions = frozenset({str(self._textract.meta.region_name)})
        return by_region(regions, forbidden_regions, provider=self.name)

    def close(self) -> None:
        self._s3.close()
        self._textract.close()

    def _folder(self, key: str) -> JobFolder:
        return JobFolder.of(self._s3, self._settings, key)

    def _get(self, job_id: str, operation: str, **arguments: Any) -> dict[str, Any]:
        remote_id = job_id.partition("/")[2]
        if not remote_id:
            raise JobNotFound("job_id_invalid", operation=operation)
        answer = call(operation, self._textract.get_document_analysis, JobId=remote_id, **arguments)
        if not isinstance(answer.get("JobStatus"), str):
            raise CallFailed("answer_without_status", operation=operation)
        return answer

    def _figures(self, job_id: str, pages: int) -> Iterator[Region]:
        more: dict[str, Any] = {}
        while True:
            answer = self._get(job_id, "images", MaxResults=_BLOCKS_PER_PAGE, **more)
            if answer.get("JobStatus") != "SUCCEEDED":
                raise CallFailed("job_not_succeeded", operation="images")
            for block in answers.objects_in(answer, "Blocks", operation="images"):
                if block.get("BlockType") == "LAYOUT_FIGURE":
                    yield _region(block, pages)
            token = answer.get("NextToken")
            if not token:
                return
            if more.get("NextToken") == token:
                raise CallFailed("pages_repeat", operation="images")
            more = {"NextToken": token}


def _region(block: Mapping[str, Any], pages: int) -> Region:
    page = answers.count_of(block.get("Page", 1 if pages == 1 else None))
    if page is None:  # a guess could put an image into another person's file
        raise CallFailed("page_not_told", operation="images")
    geometry = answers.object_in(block, "Geometry", operation="images")
    box = answers.object_in(geometry, "BoundingBox", operation="images")
    sides: list[Any] = [box.get(name) for name in ("Top", "Left", "Height", "Width")]
    if not all(isinstance(side, int | float) and math.isfinite(side) for side in sides):
        raise CallFailed("images_unreadable", operation="images")
    top, left, height, width = map(float, sides)
    return Region(page, top=top, left=left, height=height, width=width)
