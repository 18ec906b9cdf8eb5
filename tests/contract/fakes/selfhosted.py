"""The self-hosted extraction service, as its HTTP contract says (`deploy.extractor.contract`)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tests.contract.fakes.infrai import FakeInfrai
from tests.contract.fakes.jobs import Image, Job
from tests.contract.fakes.server import Reply, json_reply


class FakeSelfHosted(FakeInfrai):
    def __init__(self, **options: Any) -> None:
        super().__init__(envelope=False, **options)

    def refused(self, status: int, code: str, **headers: str) -> Reply:
        return json_reply({"error": {"code": code.lower(), "message": "x"}}, status, **headers)

    def key_mismatch(self) -> Reply:
        return self.refused(409, "idempotency_mismatch")

    def accepted(self, job: Job) -> Reply:
        return self.said({"job_id": job.id, "status": "queued"}, 202, retry_after_ms="400")

    def status(self, job: Job) -> dict[str, Any]:
        state = job.now
        words = {"succeeded": "completed"}
        said: dict[str, Any] = {
            "job_id": job.id,
            "status": job.word or words.get(state, state),
            "submitted_at": _rfc3339(job.submitted_at),
        }
        if state == "failed":
            said |= {"error": {"code": job.code or "unreadable"}, "finished_at": "x"}
        elif state == "succeeded":
            said["finished_at"] = _rfc3339(job.submitted_at)
            said["pages"] = job.pages_done
            said["images"] = [self.image_entry(job, image) for image in self.listed(job)]
            said["problems"] = []
        return said

    def image_entry(self, job: Job, image: Image) -> dict[str, Any]:
        return {
            "page": image.page,
            "index": image.index,
            "url": self.image_url(job, image),
            "sha256": image.sha256,
            "bytes": len(image.png),
            "media_type": "image/png",
            "width": 16,
            "height": 16,
            "is_mask": False,
        }


def _rfc3339(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds")
