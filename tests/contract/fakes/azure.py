"""Azure AI Document Intelligence 2024-11-30: analyze with figures."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from tests.contract.fakes.jobs import Job, JobBook, page_count
from tests.contract.fakes.server import FakeService, Reply, Request, json_reply

_MODEL = "/documentintelligence/documentModels/prebuilt-layout"
_RESULT = re.compile(_MODEL + r"/analyzeResults/([^/]+)(/figures/([^/]+))?")


class FakeAzure(FakeService):
    def __init__(self, *, token: str = "fake-token") -> None:
        super().__init__()
        self.token = token
        self.book = JobBook(idempotent=False, new_id=lambda n: f"0000-{n:04d}-beef")
        self.figure_without_id = False

    @property
    def base_url(self) -> str:
        return self.origin

    def operation_of(self, request: Request) -> str:
        if request.method == "POST" and request.path == f"{_MODEL}:analyze":
            return "submit"
        match = _RESULT.fullmatch(request.path)
        if match is None:
            return "other"
        if request.method == "DELETE":
            return "forget"
        return "image" if match[2] else "poll"

    def answer(self, operation: str, request: Request) -> Reply:
        if request.headers.get("ocp-apim-subscription-key") != self.token:
            return self.refused(401, "401")
        if request.query.get("api-version") != "2024-11-30":
            return self.refused(400, "InvalidArgument", "UnsupportedApiVersion")
        if operation == "submit":
            return self._submit(request)
        match = _RESULT.fullmatch(request.path)
        job = self.book.jobs.get(match[1]) if match else None
        if job is None or match is None:
            return self.refused(404, "NotFound")
        if operation == "forget":
            self.book.forget(job.id)
            return Reply(204)
        if operation == "image":
            page, _, index = match[3].partition(".")
            png = job.image(int(page), int(index)).png
            return Reply(200, png, {"Content-Type": "image/png"})
        if job.now == "running":
            return json_reply(self._status(job), Retry_After="2")
        return json_reply(self._status(job))

    def refused(self, status: int, code: str, inner: str | None = None, **headers: str) -> Reply:
        error: dict[str, Any] = {"code": code, "message": "x"}
        if inner:
            error["innererror"] = {"code": inner, "message": "x"}
        return json_reply({"error": error}, status, **headers)

    def _submit(self, request: Request) -> Reply:
        if request.query.get("output") != "figures":
            return self.refused(400, "InvalidArgument", "OutputOptionNotFound")
        if not request.body.startswith(b"%PDF-"):
            return self.refused(400, "InvalidRequest", "InvalidContent")
        digest = hashlib.sha256(request.body).hexdigest()
        job, _ = self.book.start(None, digest, page_count(request.body))
        location = f"{self.origin}{_MODEL}/analyzeResults/{job.id}?api-version=2024-11-30"
        return Reply(202, b"", {"Operation-Location": location, "Retry-After": "1"})

    def _status(self, job: Job) -> dict[str, Any]:
        state = job.now
        status: dict[str, Any] = {
            "status": job.word or state,
            "createdDateTime": "2026-01-01T12:00:00Z",
            "lastUpdatedDateTime": "2026-01-01T12:00:05Z",
        }
        if state == "failed":
            inner = {"code": job.code or "InvalidContent", "message": "x"}
            status["error"] = {"code": "InvalidRequest", "message": "x", "innererror": inner}
        elif state == "succeeded":
            figures: list[dict[str, Any]] = [
                {
                    "id": f"{image.page}.{image.index}",
                    "boundingRegions": [
                        {
                            "pageNumber": image.page,
                            "polygon": [1, image.index, 2, image.index, 2, 9, 1, 9],
                        }
                    ],
                }
                for image in reversed(job.images)
            ]
            if self.figure_without_id:
                figures.append({"boundingRegions": [{"pageNumber": 1, "polygon": [1, 1]}]})
            pages = [{"pageNumber": number + 1} for number in range(job.pages_done)]
            status["analyzeResult"] = {"pages": pages, "figures": figures, "content": "text"}
        return status
