"""S3, Lambda and Textract, as far as the two AWS adapters use them, on one address."""

from __future__ import annotations

import hashlib
import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from xml.sax.saxutils import escape

from tests.contract.fakes.jobs import Job, JobBook, KeyMismatch, page_count
from tests.contract.fakes.server import FakeService, Reply, Request, json_reply

BUCKET, FUNCTION, REGION = "documents", "bundle-extract", "eu-central-1"
_INVOKE = re.compile(r"/2015-03-31/functions/([^/]+)/invocations")
_REQUEST_TOKEN = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class FakeAws(FakeService):
    def __init__(self) -> None:
        super().__init__()
        self.objects: dict[str, bytes] = {}
        self.metadata: dict[str, dict[str, str]] = {}
        self.stored_before = timedelta()
        """How long ago everything in the store was put there, as its listings tell."""
        self.invocations: list[dict[str, Any]] = []
        self.book = JobBook(idempotent=True, new_id=lambda n: f"{n:064x}")
        self.blocks_per_page = 4

    @property
    def base_url(self) -> str:
        return self.origin

    def operation_of(self, request: Request) -> str:
        target = request.headers.get("x-amz-target", "")
        if target.endswith("StartDocumentAnalysis") or _INVOKE.fullmatch(request.raw_path):
            return "submit"
        if target.endswith("GetDocumentAnalysis"):
            return "images" if json.loads(request.body).get("MaxResults") != 1 else "poll"
        if request.method == "PUT":
            return "upload"
        if request.method == "DELETE":
            return "forget"
        if "list-type" in request.query:
            return "list"
        return "image" if "/images/" in request.path else "object"

    def answer(self, operation: str, request: Request) -> Reply:
        target = request.headers.get("x-amz-target", "")
        is_json = bool(target) or _INVOKE.fullmatch(request.raw_path) is not None
        if not request.headers.get("authorization", "").startswith("AWS4-HMAC-SHA256"):
            return self.json_error(403, "MissingAuthenticationTokenException")
        if not is_json:
            return self._object(operation, request)
        body = json.loads(request.body)
        if not target:
            return self._invoke(body)
        return self._start(body) if operation == "submit" else self._get(body)

    def json_error(self, status: int, code: str, **headers: str) -> Reply:
        return json_reply(
            {"__type": code, "Message": "x"}, status, x_amzn_ErrorType=code, **headers
        )

    def xml_error(self, status: int, code: str) -> Reply:
        body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>x</Message></Error>"
        return Reply(status, body.encode(), {"Content-Type": "application/xml"})

    def _object(self, operation: str, request: Request) -> Reply:
        _, bucket, *rest = request.path.split("/", 2)
        if bucket != BUCKET:
            return self.xml_error(404, "NoSuchBucket")
        if operation == "list":
            return self._list(request)
        if not rest:  # HeadBucket, which botocore asks for the region after a redirect
            return Reply(200)
        name = rest[0]
        if request.method == "PUT":
            if request.headers.get("if-none-match") == "*" and name in self.objects:
                return self.xml_error(412, "PreconditionFailed")
            self.objects[name] = request.body
            prefix = "x-amz-meta-"
            self.metadata[name] = {
                key.removeprefix(prefix): value
                for key, value in request.headers.items()
                if key.startswith(prefix)
            }
            return Reply(200, b"", {"ETag": self._etag(name)})
        if name not in self.objects:
            return self.xml_error(404, "NoSuchKey")
        if request.method == "DELETE":
            del self.objects[name]
            return Reply(204)
        headers = {f"x-amz-meta-{key}": value for key, value in self.metadata[name].items()}
        return Reply(
            200,
            self.objects[name],
            {**headers, "ETag": self._etag(name), "Content-Type": "application/octet-stream"},
        )

    def _etag(self, name: str) -> str:
        return f'"{hashlib.md5(self.objects[name]).hexdigest()}"'

    def _list(self, request: Request) -> Reply:
        prefix = request.query.get("prefix", "")
        most = int(request.query.get("max-keys") or 3)
        after = request.query.get("continuation-token", "")
        names = sorted(name for name in self.objects if name.startswith(prefix) and name > after)
        shown = names[:most]
        modified = (datetime.now(UTC) - self.stored_before).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        items = "".join(
            f"<Contents><Key>{escape(name)}</Key><LastModified>{modified}</LastModified></Contents>"
            for name in shown
        )
        more = ""
        if len(names) > most:
            more = f"<NextContinuationToken>{escape(shown[-1])}</NextContinuationToken>"
        body = (
            "<?xml version='1.0'?><ListBucketResult>"
            f"<IsTruncated>{'true' if more else 'false'}</IsTruncated>{more}{items}"
            "</ListBucketResult>"
        )
        return Reply(200, body.encode(), {"Content-Type": "application/xml"})

    def _invoke(self, event: dict[str, Any]) -> Reply:
        self.invocations.append(event)
        key = event["prefix"].rstrip("/").rpartition("/")[2]
        if key not in self.book.jobs:
            document = self.objects[f"{event['prefix']}_INPUT.pdf"]
            job = Job(key, key, event["sha256"], page_count(document))
            self.book.add(job)
        return Reply(202)

    def finish_function(self, job: Job) -> None:
        event = next(e for e in self.invocations if e["prefix"].endswith(f"/{job.id}/"))
        if job.state == "failed":
            failed = {"error": {"code": job.code or "unreadable"}}
            self.put(f"{event['prefix']}_FAILED.json", json.dumps(failed).encode())
            return
        job.state = "succeeded"
        listed = []
        for image in job.images:
            name = f"images/page-{image.page:03d}-{image.index:03d}.png"
            self.put(event["prefix"] + name, image.png)
            listed.append(
                {
                    "name": name,
                    "page": image.page,
                    "index": image.index,
                    "sha256": image.sha256,
                    "bytes": len(image.png),
                    "media_type": "image/png",
                }
            )
        marker = {"pages": job.pages_done, "images": listed, "problems": []}
        self.put(f"{event['prefix']}_SUCCESS.json", json.dumps(marker).encode())

    def put(self, name: str, content: bytes) -> None:
        self.objects[name] = content
        self.metadata[name] = {}

    def _start(self, body: dict[str, Any]) -> Reply:
        where = body["DocumentLocation"]["S3Object"]
        document = self.objects.get(where["Name"])
        if not _REQUEST_TOKEN.fullmatch(body["ClientRequestToken"]):
            return self.json_error(400, "InvalidParameterException")
        if document is None:
            return self.json_error(400, "InvalidS3ObjectException")
        if not document.startswith(b"%PDF-"):
            return self.json_error(400, "UnsupportedDocumentException")
        assert body["FeatureTypes"] == ["LAYOUT"]
        digest = hashlib.sha256(json.dumps(where).encode()).hexdigest()
        try:
            job, _ = self.book.start(body["ClientRequestToken"], digest, page_count(document))
        except KeyMismatch:
            return self.json_error(400, "IdempotentParameterMismatchException")
        return json_reply({"JobId": job.id})

    def _get(self, body: dict[str, Any]) -> Reply:
        job = self.book.jobs.get(body["JobId"])
        if job is None:
            return self.json_error(400, "InvalidJobIdException")
        words = {"running": "IN_PROGRESS", "partial": "PARTIAL_SUCCESS"}
        said: dict[str, Any] = {"JobStatus": job.word or words.get(job.now, job.now.upper())}
        if job.now == "failed":
            said["StatusMessage"] = job.code or "INVALID_IMAGE_TYPE"
        if job.now in ("succeeded", "partial"):
            said["DocumentMetadata"] = {"Pages": job.pages_done}
            blocks = [
                self._figure(image.page, image.index, job.images_per_page)
                for image in reversed(job.images)
            ]
            start = int(body.get("NextToken") or 0)
            size = self.blocks_per_page
            said["Blocks"] = [{"BlockType": "PAGE", "Page": 1}, *blocks[start : start + size]]
            if start + size < len(blocks):
                said["NextToken"] = str(start + size)
        return json_reply(said)

    @staticmethod
    def _figure(page: int, index: int, count: int) -> dict[str, Any]:
        box = {"Left": 0.1, "Width": 0.5, "Top": (index - 1) / count, "Height": 0.8 / count}
        return {"BlockType": "LAYOUT_FIGURE", "Page": page, "Geometry": {"BoundingBox": box}}
