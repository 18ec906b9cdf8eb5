"""docling-serve: asynchronous task API."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from tests.contract.fakes.jobs import Image, Job, JobBook, multipart_file, page_count
from tests.contract.fakes.server import FakeService, Reply, Request, json_reply

_WORDS = {"running": "started", "succeeded": "success", "failed": "failure"}


class FakeDocling(FakeService):
    """``removes_fetched``: a result that was fetched once is gone (as it is 300 s later)."""

    def __init__(self, *, token: str = "fake-token") -> None:
        super().__init__()
        self.token = token
        self.book = JobBook(idempotent=False, new_id=lambda n: f"task-{n:08d}")
        self.fetched_once: set[str] = set()
        self.removes_fetched = False

    @property
    def base_url(self) -> str:
        return self.origin

    def operation_of(self, request: Request) -> str:
        if request.method == "POST" and request.path == "/v1/convert/file/async":
            return "submit"
        if request.path.startswith("/v1/status/poll/"):
            return "poll"
        return "result" if request.path.startswith("/v1/result/") else "other"

    def answer(self, operation: str, request: Request) -> Reply:
        if request.headers.get("x-api-key") != self.token:
            return json_reply({"detail": "Api key is required."}, 401)
        if operation == "submit":
            content_type = request.headers.get("content-type", "")
            document = multipart_file(request.body, content_type, "files")
            if document is None:
                return json_reply({"detail": [{"type": "missing", "loc": ["files"]}]}, 422)
            digest = hashlib.sha256(document).hexdigest()
            job, _ = self.book.start(None, digest, page_count(document))
            return json_reply(self._task(job))
        job_or_none = self.book.jobs.get(request.path.rpartition("/")[2])
        if job_or_none is None:
            return json_reply({"detail": "Task not found."}, 404)
        job = job_or_none
        if operation == "poll":
            return json_reply(self._task(job))
        if job.now not in ("succeeded", "partial"):
            return json_reply({"detail": "Task result not found."}, 404)
        if self.removes_fetched and job.id in self.fetched_once:
            return json_reply({"detail": "Task not found."}, 404)
        self.fetched_once.add(job.id)
        return json_reply(self._result(job))

    def _task(self, job: Job) -> dict[str, Any]:
        state = "succeeded" if job.now == "partial" else job.now
        return {
            "task_id": job.id,
            "task_type": "convert",
            "task_status": job.word or _WORDS[state],
            "task_position": 1,
        }

    def _result(self, job: Job) -> dict[str, Any]:
        content = {
            "schema_name": "DoclingDocument",
            "pages": {str(n + 1): {"page_no": n + 1} for n in range(job.pages_done)},
            "pictures": [self._picture(image) for image in job.images],
        }
        status = "partial_success" if job.now == "partial" else "success"
        return {
            "document": {"filename": "document.pdf", "json_content": content},
            "status": status,
            "errors": [],
        }

    def _picture(self, image: Image) -> dict[str, Any]:
        uri = "data:image/png;base64," + base64.b64encode(image.png).decode()
        return {
            "self_ref": f"#/pictures/{image.index}",
            "prov": [{"page_no": image.page, "bbox": {"l": 0, "t": 0, "r": 1, "b": 1}}],
            "image": {"mimetype": "image/png", "dpi": 72, "uri": uri},
        }
