"""Infrai, and the common ground of services with its HTTP contract.

Runs inside a test, or as a process of its own whose accepted jobs survive `kill -9`:

    python -m tests.contract.fakes.infrai --port 0 --log jobs.jsonl --run-time 1.0 --slots 100

It prints one JSON line with its address. The log gets one JSON line for each accepted job before
the answer is sent; a restart with the same log knows these jobs again. `POST /_control/faults`
scripts faults at run time, in the form of `--fault`.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import os
import random
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.contract.fakes.jobs import Image, Job, JobBook, KeyMismatch, multipart_file, page_count
from tests.contract.fakes.server import (
    FakeService,
    Fault,
    Reply,
    Request,
    delivered,
    instead,
    json_reply,
    lost_answer,
)


class FakeInfrai(FakeService):
    """``envelope``: answers in `ok`/`data`/`error`/`metadata`. ``images``: how results give their
    images: `url`, `inline` or `second-call`. ``synchronous``: the submit's answer is the result.

    ``slots``: jobs that may run at a time, more get 429. ``run_seconds``: None = until told.
    """

    submit_path = "/v1/pdf/extract_images"
    job_path = "/v1/pdf/job/get/"
    forget_path = "/v1/pdf/job/"

    def __init__(
        self,
        *,
        token: str = "fake-token",
        port: int = 0,
        envelope: bool = True,
        images: str = "url",
        synchronous: bool = False,
        idempotent: bool = True,
        slots: int | None = None,
        run_seconds: float | None = None,
        run_seconds_per_page: float = 0.0,
        images_per_page: int = 2,
        log: Path | None = None,
    ) -> None:
        super().__init__(port=port)
        self.token = token
        self.envelope = envelope
        self.images = images
        self.synchronous = synchronous
        self.slots = slots
        self.run_seconds = run_seconds
        self.run_seconds_per_page = run_seconds_per_page
        self.images_per_page = images_per_page
        self.book = JobBook(idempotent=idempotent, new_id=lambda _: f"job_{os.urandom(12).hex()}")
        self.url_generation = 1
        self.shuffle_images = False
        self._running: list[Job] = []
        self._log = _JobLog(log, self.book) if log is not None else None
        self._running += self.book.jobs.values()

    @property
    def base_url(self) -> str:
        return f"{self.origin}/v1"

    def operation_of(self, request: Request) -> str:
        path, method = request.path, request.method
        if method == "POST" and path == self.submit_path:
            return "submit"
        if method == "GET" and path.startswith(self.job_path):
            return "poll"
        if method == "GET" and path.startswith("/v1/pdf/job/images/"):
            return "images"
        if method == "GET" and path.startswith("/files/"):
            return "image"
        if method == "DELETE" and path.startswith(self.forget_path):
            return "forget"
        if path == "/v1/discovery":
            return "discovery"
        return "control" if path.startswith("/_control/") else "other"

    def answer(self, operation: str, request: Request) -> Reply:
        if operation == "image":
            return self._image(request)
        if operation == "discovery":
            return self.said(self.discovery())
        if operation == "control":
            return self._control(request)
        if request.headers.get("authorization") != f"Bearer {self.token}":
            return self.refused(401, "UNAUTHORIZED")
        if operation == "submit":
            return self._submit(request)
        job = self.book.jobs.get(request.path.rpartition("/")[2])
        if operation == "forget":
            return self._forget(job)
        if job is None or operation == "other":
            return self.refused(404, "JOB_NOT_FOUND")
        if operation == "images":
            return json_reply([self.image_entry(job, image) for image in self.listed(job)])
        return self.said(self.status(job))

    # What the service says, each overridable by a service with another dialect.

    def said(self, data: Any, status: int = 200, **headers: str) -> Reply:
        if self.envelope:
            metadata = {"request_id": "r1", "cost_usd": 0.01, "latency_ms": 3, "vendor": "fake"}
            data = {"ok": True, "data": data, "error": None, "metadata": metadata}
        return json_reply(data, status, **headers)

    def refused(self, status: int, code: str, **headers: str) -> Reply:
        error: dict[str, Any] = {"code": code, "message": "refused"}
        body = {"ok": False, "data": None, "error": error} if self.envelope else {"error": error}
        return json_reply(body, status, **headers)

    def key_mismatch(self) -> Reply:
        return self.refused(409, "IDEMPOTENCY_KEY_REUSED")

    def discovery(self) -> dict[str, Any]:
        entry = {"available": True, "regions": ["western"], "vendors": ["fake"], "billing": "page"}
        return {"capabilities": {"pdf.extract_images": entry}}

    def accepted(self, job: Job) -> Reply:
        if self.synchronous:
            job.state = "succeeded"
            data = self.status(job)
            del data["job_id"]
            return self.said(data)
        return self.said({"job_id": job.id, "status": "queued"}, 202)

    def status(self, job: Job) -> dict[str, Any]:
        state = job.now
        words = {"running": "processing", "partial": "partial_success"}
        said: dict[str, Any] = {
            "job_id": job.id,
            "status": job.word or words.get(state, "completed" if state == "succeeded" else state),
        }
        if state == "failed":
            said["error"] = {"code": job.code or "UNREADABLE", "message": "x"}
        elif state in ("succeeded", "partial"):
            said["pages"] = job.pages_done
            if self.images != "second-call":
                said["images"] = [self.image_entry(job, image) for image in self.listed(job)]
        return said

    def image_entry(self, job: Job, image: Image) -> dict[str, Any]:
        entry: dict[str, Any] = {
            "page": image.page,
            "index": image.index,
            "sha256": image.sha256,
            "mime_type": "image/png",
            "name": "../../same-name.png",
        }
        if self.images == "inline":
            return entry | {"base64": base64.b64encode(image.png).decode()}
        return entry | {"url": self.image_url(job, image), "bytes": len(image.png)}

    def image_url(self, job: Job, image: Image) -> str:
        query = f"X-Amz-Signature={self.url_generation}"
        return f"{self.origin}/files/{job.id}/{image.page}/{image.index}?{query}"

    def listed(self, job: Job) -> list[Image]:
        images = job.images
        if self.shuffle_images:
            random.shuffle(images)
        return images

    # Effects.

    def _submit(self, request: Request) -> Reply:
        key = request.headers.get("idempotency-key")
        if request.headers.get("content-type") == "application/json":
            body = json.loads(request.body)
            if body.get("idempotency_key") != key or canonical(body) != request.body:
                return self.refused(400, "INVALID_REQUEST")
            document: bytes | None = base64.b64decode(body["pdf"])
        else:
            content_type = request.headers.get("content-type", "")
            document = multipart_file(request.body, content_type, "file")
        if document is None or b"%PDF-" not in document[:1024]:
            return self.refused(422, "NOT_A_PDF")
        if self._full(key):
            return self.refused(429, "RATE_LIMITED", Retry_After="1")
        try:
            job, is_new = self.book.start(
                key,
                hashlib.sha256(document).hexdigest(),
                page_count(document),
                images_per_page=self.images_per_page,
            )
        except KeyMismatch:
            return self.key_mismatch()
        if is_new:
            if self.run_seconds is not None:
                seconds = self.run_seconds + self.run_seconds_per_page * job.pages
                job.finishes_at = time.time() + seconds
                self._running.append(job)
            if self._log is not None:
                self._log.accepted(job, request.headers.get("traceparent"))
        return self.accepted(job)

    def _full(self, key: str | None) -> bool:
        if self.slots is None:
            return False
        self._running = [job for job in self._running if job.now == "running"]
        known = any(job.key == key for job in self._running)
        return len(self._running) >= self.slots and not known

    def _forget(self, job: Job | None) -> Reply:
        if job is not None:
            self.book.forget(job.id)
            if self._log is not None:
                self._log.forgotten(job)
        return Reply(204)

    def _image(self, request: Request) -> Reply:
        if {"authorization", "x-api-key", "idempotency-key"} & set(request.headers):
            return Reply(400, b"<Error><Code>InvalidArgument</Code></Error>")
        if request.query.get("X-Amz-Signature") != str(self.url_generation):
            return Reply(403, b"<Error><Code>AccessDenied</Code></Error>")
        _, _, job_id, page, index = request.path.split("/")
        job = self.book.jobs.get(job_id)
        if job is None:
            return Reply(404, b"<Error><Code>NoSuchKey</Code></Error>")
        image = job.image(int(page), int(index))
        return Reply(200, image.png, {"Content-Type": "image/png"})

    def _control(self, request: Request) -> Reply:
        if request.path == "/_control/faults" and request.method == "POST":
            for script in json.loads(request.body):
                self.misbehave(script["operation"], fault_of(script))
            return Reply(204)
        keys = [job.key for job in self.book.started]
        return json_reply({"accepted": len(keys), "keys": len(set(keys))})


def canonical(body: dict[str, Any]) -> bytes:
    """JSON as the service documents it: sorted keys, no spaces, a newline at the end."""
    return (json.dumps(body, sort_keys=True, separators=(",", ":")) + "\n").encode()


class _JobLog:
    """One line for each event, written with one system call, so that a kill loses none."""

    def __init__(self, path: Path, book: JobBook) -> None:
        if path.exists():
            for line in path.read_text("utf-8").splitlines():
                self._replay(json.loads(line), book)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def accepted(self, job: Job, traceparent: str | None) -> None:
        self._write(
            event="accepted",
            key=job.key,
            traceparent=traceparent,
            job_id=job.id,
            sha256=job.sha256,
            pages=job.pages,
            images_per_page=job.images_per_page,
            submitted_at=job.submitted_at,
            finishes_at=job.finishes_at,
        )

    def forgotten(self, job: Job) -> None:
        self._write(event="forgotten", key=job.key, job_id=job.id, at=time.time())

    def _write(self, **event: Any) -> None:
        os.write(self._file, (json.dumps(event) + "\n").encode())

    @staticmethod
    def _replay(event: dict[str, Any], book: JobBook) -> None:
        if event["event"] == "forgotten":
            book.forget(event["job_id"])
            return
        book.add(
            Job(
                id=event["job_id"],
                key=event["key"],
                sha256=event["sha256"],
                pages=event["pages"],
                images_per_page=event["images_per_page"],
                submitted_at=event["submitted_at"],
                finishes_at=event["finishes_at"],
            )
        )


def fault_of(script: dict[str, Any]) -> Fault:
    """A fault from JSON: `{"operation": "submit", "kind": "status", "status": 503, "headers": {},
    "body": "", "times": 3}`; kinds: `status` (instead of doing it), `lost` (done, no answer),
    `short`, `short-close`, `reset` (not done, no answer)."""
    times = int(script.get("times", 1))
    kind = script.get("kind", "status")
    if kind == "lost":
        return lost_answer(times=times)
    if kind == "reset":
        return instead(Reply(delivery="reset"), times=times)
    if kind in ("short", "short-close"):
        return delivered(kind, times=times)
    return instead(
        Reply(int(script["status"]), script.get("body", "").encode(), script.get("headers", {})),
        times=times,
    )


class _Troubled(FakeInfrai):
    """With troubles that come at random, the same for the same seed."""

    def __init__(self, *, rates: dict[str, float], seed: int, **options: Any) -> None:
        super().__init__(**options)
        self._rates = rates
        self._random = random.Random(seed)

    def answer(self, operation: str, request: Request) -> Reply:
        drawn = self._random.random()
        if operation in ("submit", "poll"):
            if drawn < self._rates["throttle"]:
                return self.refused(429, "RATE_LIMITED", Retry_After="1")
            if drawn < self._rates["throttle"] + self._rates["error"]:
                return self.refused(500, "INTERNAL")
        reply = super().answer(operation, request)
        if operation == "submit" and self._random.random() < self._rates["lost"]:
            return replace(reply, delivery="reset")
        return reply


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="A stand-in for the Infrai extraction service.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--token", default="fake-token")
    parser.add_argument("--log", type=Path, help="accepted jobs; read again at start")
    parser.add_argument("--run-time", type=float, default=0.0, help="seconds a job runs")
    parser.add_argument("--run-time-per-page", type=float, default=0.0)
    parser.add_argument("--slots", type=int, help="jobs at a time; more get 429")
    parser.add_argument("--images-per-page", type=int, default=1)
    parser.add_argument("--images", choices=("url", "inline", "second-call"), default="url")
    parser.add_argument("--bare", action="store_true", help="answers without the envelope")
    parser.add_argument("--not-idempotent", action="store_true")
    parser.add_argument("--throttle-rate", type=float, default=0.0, help="share of calls with 429")
    parser.add_argument("--error-rate", type=float, default=0.0, help="share of calls with 500")
    parser.add_argument("--lost-rate", type=float, default=0.0, help="submits done, not answered")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fault", action="append", default=[], help="JSON, see fault_of")
    given = parser.parse_args(arguments)
    service = _Troubled(
        rates={"throttle": given.throttle_rate, "error": given.error_rate, "lost": given.lost_rate},
        seed=given.seed,
        token=given.token,
        port=given.port,
        envelope=not given.bare,
        images=given.images,
        idempotent=not given.not_idempotent,
        slots=given.slots,
        run_seconds=given.run_time,
        run_seconds_per_page=given.run_time_per_page,
        images_per_page=given.images_per_page,
        log=given.log,
    )
    service.record_requests = False
    for text in given.fault:
        script = json.loads(text)
        service.misbehave(script["operation"], fault_of(script))
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    service.start()
    sys.stdout.write(json.dumps({"listening": service.base_url}) + "\n")
    sys.stdout.flush()
    stopped.wait()
    service.stop()


if __name__ == "__main__":
    main()
