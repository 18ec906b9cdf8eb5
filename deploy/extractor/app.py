"""The HTTP face of the service: authentication, parsing of requests, JSON answers."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import math
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from deploy.extractor import contract
from deploy.extractor.contract import ApiError, JobStatus, RequestError
from deploy.extractor.discovery import describe
from deploy.extractor.failures import place_of
from deploy.extractor.records import JobRow
from deploy.extractor.service import ExtractionService
from deploy.extractor.upload import Upload, receive_json, receive_multipart

_JOB_ID = re.compile(r"[0-9a-f]{32}")
_PRINTABLE_ASCII = re.compile(r"[\x20-\x7e]+")
# What a form may add to a document of the largest permitted size: boundaries and small fields.
_FORM_OVERHEAD = 64 * 1024
# JSON bodies are held in memory, so only so many are received at a time.
_JSON_AT_ONCE = 4
# Read at once: cheaper than handing each step of a stream to a thread, which is what
# FileResponse does. Larger files are streamed and can be resumed by Range.
_SMALL_FILE = 256 * 1024

_log = structlog.get_logger("extractor")
_Endpoint = Callable[[Request], Awaitable[Response]]


def create_app(service: ExtractionService) -> Starlette:
    """The ASGI application; its lifespan starts and stops the service."""
    handlers = _Handlers(service)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await service.start()
        yield
        await service.stop()

    def route(path: str, endpoint: _Endpoint, *methods: str) -> Route:
        return Route(path, _guarded(endpoint), methods=list(methods))

    return Starlette(
        routes=[
            route(contract.SUBMIT_PATH, handlers.submit, "POST"),
            route(contract.JOB_STATUS_PATH, handlers.job_status, "GET"),
            route(contract.FILE_PATH, handlers.file, "GET"),
            route(contract.JOB_PATH, handlers.delete, "DELETE"),
            route(contract.DISCOVERY_PATH, handlers.discovery, "GET"),
            route("/health", handlers.health, "GET"),
            route("/metrics", handlers.metrics, "GET"),
        ],
        exception_handlers={HTTPException: _no_such_route},
        lifespan=lifespan,
    )


class _Handlers:
    def __init__(self, service: ExtractionService) -> None:
        self._service = service
        self._tokens = service.settings.token_digests()
        self._json_slots = asyncio.Semaphore(_JSON_AT_ONCE)

    async def submit(self, request: Request) -> Response:
        outcome = "internal"
        try:
            owner = self._authenticate(request)
            receive = self._receiver(request)
            submitted = await self._service.submit(owner, _idempotency_key(request), receive)
            outcome = "accepted" if submitted.is_new else "repeated"
        except ApiError as refusal:
            outcome = refusal.code.value
            raise
        except ClientDisconnect:
            outcome = "disconnected"
            raise
        finally:
            self._service.metrics.submits.labels(outcome).inc()
        job = submitted.job
        return _json(
            {"job_id": job.id, "status": job.status},
            200 if job.status.is_terminal else 202,
            {} if job.status.is_terminal else self._hint(job),
        )

    async def job_status(self, request: Request) -> Response:
        owner = self._authenticate(request)
        wait_s = _wait(request)
        job_id, job = request.path_params["job_id"], None
        if _JOB_ID.fullmatch(job_id):
            job = await self._service.job(owner, job_id, wait_s)
        if job is None:
            raise ApiError(404, RequestError.JOB_NOT_FOUND, "no such job; it may have expired")
        answer: dict[str, Any] = {
            "job_id": job.id,
            "status": job.status,
            "submitted_at": _rfc3339(job.submitted_at),
        }
        if not job.status.is_terminal:
            return _json(answer, 200, self._hint(job))
        answer["finished_at"] = _rfc3339(job.finished_at)
        if job.status is JobStatus.FAILED:
            answer["error"] = {"code": job.error_code}
            if job.error_which is not None:
                answer["error"]["which"] = job.error_which
        else:
            answer["pages"] = job.pages
            answer["images"] = self._images(request, job)
            answer["problems"] = job.problems
        return _json(answer, 200)

    async def file(self, request: Request) -> Response:
        # No look at Authorization: the URL is the capability, as with any pre-signed URL.
        path, image = self._service.file(request.path_params["token"])
        try:
            stat = os.stat(path)
            small = path.read_bytes() if stat.st_size <= _SMALL_FILE else None
        except FileNotFoundError:
            raise ApiError(410, RequestError.FILE_GONE, "the file was removed") from None
        self._service.metrics.files_served.inc()
        headers = {
            "etag": f'"{image.sha256}"',
            "cache-control": "private, no-store",
            "x-content-type-options": "nosniff",
        }
        if small is not None:
            return Response(small, headers=headers, media_type=image.media_type)
        return FileResponse(path, headers=headers, media_type=image.media_type, stat_result=stat)

    async def delete(self, request: Request) -> Response:
        owner = self._authenticate(request)
        job_id = request.path_params["job_id"]
        if _JOB_ID.fullmatch(job_id):
            await self._service.delete(owner, job_id)
        return Response(status_code=204)

    async def discovery(self, _: Request) -> Response:
        service = self._service
        return _json(describe(service.settings, available=service.dispatcher.can_work), 200)

    async def health(self, _: Request) -> Response:
        dispatcher = self._service.dispatcher
        healthy = dispatcher.can_work
        return _json(
            {
                "status": "ok" if healthy else "no_worker",
                "workers": dispatcher.workers_up,
                "network_isolated": dispatcher.network_isolated,
                "queued": dispatcher.queued,
            },
            200 if healthy else 503,
        )

    async def metrics(self, _: Request) -> Response:
        text = generate_latest(self._service.metrics.registry)
        return Response(text, headers={"content-type": CONTENT_TYPE_LATEST})

    def _authenticate(self, request: Request) -> bytes:
        """The digest of the token, which stands for its owner; raises ApiError 401."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        digest = hashlib.sha256(token.strip().encode()).digest()
        known = [accepted for accepted in self._tokens if hmac.compare_digest(accepted, digest)]
        if scheme.lower() != "bearer" or not known:
            raise ApiError(
                401, RequestError.UNAUTHORIZED, "send the header Authorization: Bearer <token>"
            )
        return digest

    def _receiver(self, request: Request) -> Callable[[Path], Awaitable[Upload]]:
        """How this request's body is to be stored; refuses what is announced as too large."""
        settings = self._service.settings
        content_type = request.headers.get("content-type", "")
        announced = request.headers.get("content-length", "")
        if content_type.startswith("multipart/form-data"):
            if announced.isdigit() and int(announced) > settings.max_upload_bytes + _FORM_OVERHEAD:
                raise ApiError(
                    413,
                    RequestError.TOO_LARGE,
                    "the document is larger than this service accepts",
                    which="max_upload_bytes",
                )
            return lambda path: receive_multipart(
                request.stream(), content_type, path, settings.max_upload_bytes
            )
        if content_type.startswith("application/json"):

            async def receive(path: Path) -> Upload:
                async with self._json_slots:
                    return await receive_json(
                        request.stream(), path, settings.max_json_bytes, settings.max_upload_bytes
                    )

            return receive
        raise ApiError(
            415,
            RequestError.INVALID_REQUEST,
            "send multipart/form-data with a part named file, or JSON with pdf_base64",
            which="content-type",
        )

    def _hint(self, job: JobRow) -> dict[str, str]:
        return contract.retry_headers(self._service.dispatcher.seconds_until_finished(job.id))

    def _images(self, request: Request, job: JobRow) -> list[dict[str, Any]]:
        base = self._service.settings.public_url or str(request.base_url).rstrip("/")
        prefix = base + contract.FILE_PATH.removesuffix("{token}")
        return [
            {
                "page": image.page,
                "index": image.index,
                "url": prefix + self._service.file_token(job.id, ordinal),
                "sha256": image.sha256,
                "bytes": image.bytes,
                "media_type": image.media_type,
                "width": image.width,
                "height": image.height,
                "is_mask": image.is_mask,
            }
            for ordinal, image in enumerate(self._service.store.images(job.id))
        ]


def _guarded(endpoint: _Endpoint) -> _Endpoint:
    """Answers refusals as JSON and keeps the text of unexpected exceptions out of every log."""

    async def guarded(request: Request) -> Response:
        try:
            return await endpoint(request)
        except ApiError as refusal:
            return _json(refusal.body(), refusal.status, refusal.headers())
        except ClientDisconnect:
            return Response(status_code=400)  # nobody is there to read it
        except Exception as unexpected:
            _log.error("request_failed", kind=type(unexpected).__name__, at=place_of(unexpected))
            answer = ApiError(500, RequestError.INTERNAL, "unexpected failure; see the log")
            return _json(answer.body(), answer.status)

    return guarded


async def _no_such_route(_: Request, problem: Exception) -> Response:
    status = problem.status_code if isinstance(problem, HTTPException) else 404
    code = RequestError.METHOD_NOT_ALLOWED if status == 405 else RequestError.NOT_FOUND
    return _json(ApiError(status, code, "see GET /v1/discovery").body(), status)


def _json(
    body: Mapping[str, Any], status: int, headers: Mapping[str, str] | None = None
) -> Response:
    content = json.dumps(body, separators=(",", ":")).encode()
    return Response(content, status, headers, media_type="application/json")


def _idempotency_key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    if len(key) > contract.LONGEST_IDEMPOTENCY_KEY or not _PRINTABLE_ASCII.fullmatch(key):
        raise ApiError(
            400,
            RequestError.INVALID_REQUEST,
            f"Idempotency-Key must be 1 to {contract.LONGEST_IDEMPOTENCY_KEY} printable characters",
            which="idempotency-key",
        )
    return key


def _wait(request: Request) -> float:
    """Seconds of long polling asked for, at most the longest that is served."""
    text = request.query_params.get("wait", "0")
    try:
        wait_s = float(text)
    except ValueError:
        wait_s = math.nan
    if not wait_s >= 0:
        raise ApiError(
            400, RequestError.INVALID_REQUEST, "wait must be a number of seconds", which="wait"
        )
    return min(wait_s, contract.LONGEST_LONG_POLL_S)


def _rfc3339(unix_seconds: float | None) -> str | None:
    if unix_seconds is None:
        return None
    moment = datetime.fromtimestamp(unix_seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
