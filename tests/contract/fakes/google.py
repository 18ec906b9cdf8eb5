"""Google Document AI (batch process, layout parser) and the Cloud Storage that it works on."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import Any
from urllib.parse import unquote

from tests.contract.fakes.jobs import Job, JobBook, page_count
from tests.contract.fakes.server import FakeService, Reply, Request, json_reply

PROJECT, LOCATION, PROCESSOR, BUCKET = "project-1", "eu", "abc123", "documents"
_BATCH = f"/v1/projects/{PROJECT}/locations/{LOCATION}/processors/{PROCESSOR}:batchProcess"
_OPERATIONS = f"projects/{PROJECT}/locations/{LOCATION}/operations"
_OBJECT = re.compile(rf"/storage/v1/b/{BUCKET}/o/(.+)")


class FakeGoogle(FakeService):
    """``item_failure``: a google.rpc code with which the document fails in a succeeded batch."""

    def __init__(self, *, token: str = "fake-token") -> None:
        super().__init__()
        self.token = token
        self.objects: dict[str, bytes] = {}
        self.book = JobBook(idempotent=False, new_id=lambda n: f"{_OPERATIONS}/{n}")
        self.item_failure: int | None = None
        self._outputs: dict[str, str] = {}

    @property
    def base_url(self) -> str:
        return self.origin

    def operation_of(self, request: Request) -> str:
        path, method = request.raw_path, request.method
        if path.startswith("/upload/"):
            return "upload"
        if path == _BATCH:
            return "submit"
        if path.startswith(f"/v1/{_OPERATIONS}/"):
            return "poll"
        if path == f"/storage/v1/b/{BUCKET}/o":
            return "list"
        if _OBJECT.fullmatch(path):
            return "forget" if method == "DELETE" else "result"
        return "other"

    def answer(self, operation: str, request: Request) -> Reply:
        if request.headers.get("authorization") != f"Bearer {self.token}":
            return self.refused(401, "UNAUTHENTICATED")
        if operation == "upload":
            name = request.query["name"]
            if name in self.objects and request.query.get("ifGenerationMatch") == "0":
                return json_reply({"error": {"code": 412, "message": "x"}}, 412)
            self.objects[name] = request.body
            return json_reply({"name": name})
        if operation == "list":
            return self._list(request)
        if operation == "submit":
            return self._submit(json.loads(request.body))
        if operation == "poll":
            job = self.book.jobs.get(request.path.removeprefix("/v1/"))
            return self.refused(404, "NOT_FOUND") if job is None else json_reply(self._job(job))
        match = _OBJECT.fullmatch(request.raw_path)
        name = unquote(match[1]) if match else ""
        if name not in self.objects:
            return json_reply({"error": {"code": 404, "message": "x"}}, 404)
        if operation == "forget":
            del self.objects[name]
            return Reply(204)
        return Reply(200, self.objects[name], {"Content-Type": "application/json"})

    def refused(self, status: int, word: str, message: str = "x", **headers: str) -> Reply:
        error = {"code": status, "message": message, "status": word}
        return json_reply({"error": error}, status, **headers)

    def finish(self, job: Job) -> None:
        """What a batch does at its end: write the output shards."""
        job.state = "succeeded"
        folder = self._outputs[job.id]
        number = job.id.rpartition("/")[2]
        half = (job.pages_done + 1) // 2
        for shard, pages in enumerate([range(1, half + 1), range(half + 1, job.pages_done + 1)]):
            images = [image for image in job.images if image.page in pages]
            document = {
                "blobAssets": [
                    {
                        "assetId": f"{image.page}-{image.index}",
                        "content": base64.b64encode(image.png).decode(),
                        "mimeType": "image/png",
                    }
                    for image in images
                ],
                "documentLayout": {
                    "blocks": [
                        {
                            "blockId": "1",
                            "textBlock": {
                                "text": "Patient",
                                "blocks": [
                                    {
                                        "imageBlock": {"blobAssetId": f"{im.page}-{im.index}"},
                                        "pageSpan": {"pageStart": im.page, "pageEnd": im.page},
                                    }
                                    for im in images
                                ],
                            },
                        }
                    ]
                },
            }
            name = f"{folder}{number}/0/input-{shard}.json"
            self.objects[name] = json.dumps(document).encode()

    def _submit(self, body: dict[str, Any]) -> Reply:
        source = body["inputDocuments"]["gcsDocuments"]["documents"][0]["gcsUri"]
        output = body["documentOutputConfig"]["gcsOutputConfig"]["gcsUri"]
        assert body["processOptions"]["layoutConfig"]["returnImages"] is True
        root = f"gs://{BUCKET}/"
        document = self.objects.get(source.removeprefix(root))
        if document is None:
            return self.refused(400, "INVALID_ARGUMENT")
        digest = hashlib.sha256(document).hexdigest()
        job, _ = self.book.start(None, digest, page_count(document))
        self._outputs[job.id] = output.removeprefix(root)
        return json_reply({"name": job.id})

    def _job(self, job: Job) -> dict[str, Any]:
        state = job.now
        words = {"running": "RUNNING", "succeeded": "SUCCEEDED", "failed": "FAILED"}
        folder = f"gs://{BUCKET}/{self._outputs[job.id]}{job.id.rpartition('/')[2]}/0"
        item: dict[str, Any] = {"inputGcsSource": "gs://x", "outputGcsDestination": folder}
        if self.item_failure is not None:
            item["status"] = {"code": self.item_failure, "message": "x"}
        operation: dict[str, Any] = {
            "name": job.id,
            "metadata": {
                "state": job.word or words[state],
                "updateTime": "2026-01-01T12:00:05.000000Z",
                "individualProcessStatuses": [item],
            },
        }
        if state == "failed":
            code = job.code or "3"
            told = int(code) if code.isdigit() else code
            operation |= {"done": True, "error": {"code": told, "message": "x"}}
        elif state == "succeeded":
            operation |= {"done": True, "response": {}}
        return operation

    def _list(self, request: Request) -> Reply:
        names = sorted(n for n in self.objects if n.startswith(request.query["prefix"]))
        start = int(request.query.get("pageToken") or 0)
        page: dict[str, Any] = {"items": [{"name": name} for name in names[start : start + 2]]}
        if start + 2 < len(names):
            page["nextPageToken"] = str(start + 2)
        return json_reply(page)
