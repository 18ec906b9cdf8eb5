"""An extraction service for benchmarks: the self-hosted service's contract, run times from a given
distribution, a given capacity, one image per page, and as little CPU as can be.

``python -m tests.bench.service --port 0 --slots 100 --run-time 1.0`` prints its address as JSON.
At most ``slots`` jobs run at a time, ``queue`` more wait; beyond that a submit is told 429.
``GET /stats`` gives what it saw: jobs, polls, and of each finished job how long it waited and ran.
What stands before ``/v1`` in a path is a label: ``GET /stats`` tells each job's, so one service can
serve, and tell apart, several clients.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import heapq
import json
import math
import random
import re
import struct
import sys
import zlib
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import time
from typing import Any, cast

import httptools
import uvloop

RunTime = Callable[[random.Random, int], float]
PAGE = re.compile(rb"/Type\s*/Page(?![A-Za-z])")
"""A page's dictionary, where a PDF has no object streams (nor text that happens to say so)."""


def run_time(kind: str, mean: float, sigma: float, per_page: float) -> RunTime:
    """``fixed``: always ``mean``; ``lognormal``: that mean with shape ``sigma``; ``pages``:
    ``per_page`` seconds a page; ``mix``: that, times log-normal noise of shape ``sigma``. Seconds.
    """
    if kind == "fixed":
        return lambda rng, pages: mean
    if kind == "lognormal":
        mu = math.log(mean) - sigma * sigma / 2
        return lambda rng, pages: rng.lognormvariate(mu, sigma)
    if kind == "mix":
        return lambda rng, pages: per_page * pages * rng.lognormvariate(0, sigma)
    return lambda rng, pages: per_page * pages


def tiny_png(seed: int) -> bytes:
    """A one-pixel PNG whose bytes depend on ``seed``."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    pixel = bytes([0, seed % 256, seed // 256 % 256, seed // 65536 % 256])
    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(pixel))
        + chunk(b"IEND", b"")
    )


@dataclass(slots=True)
class Job:
    number: int
    label: str
    pages: int
    seconds: float
    accepted: float
    started: float | None = None
    finished: float | None = None
    polls: int = 0
    seen: float | None = None


@dataclass(slots=True)
class Service:
    slots: int
    queue: int
    seconds_of: RunTime
    seed: int
    images: int | None = None
    """Per document; None: one a page."""
    jobs: dict[str, Job] = field(default_factory=dict)
    alike: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Jobs by label and pages."""
    by_key: dict[str, str] = field(default_factory=dict)
    running: list[tuple[float, str]] = field(default_factory=list)
    waiting: deque[str] = field(default_factory=deque)
    polls: int = 0
    throttled: int = 0
    finished: list[tuple[float, float, float, float, int, str, int]] = field(default_factory=list)
    """(waited, ran, at, lag until seen, polls, label, pages) of each job seen finished, seconds."""
    address: str = ""

    def advance(self, now: float) -> None:
        """Ends what is due and starts what waits, as if it had happened on time."""
        while self.running and self.running[0][0] <= now:
            ended, identifier = heapq.heappop(self.running)
            self.jobs[identifier].finished = ended
            if self.waiting:
                self._start(self.waiting.popleft(), ended)

    def _start(self, identifier: str, now: float) -> None:
        job = self.jobs[identifier]
        job.started = now
        heapq.heappush(self.running, (now + job.seconds, identifier))

    def submit(self, label: str, key: str, body: bytes) -> tuple[int, dict[str, Any]]:
        now = time()
        self.advance(now)
        if (known := self.by_key.get(label + key)) is not None:
            return 202, {"job_id": known, "status": "running"}
        if len(self.running) >= self.slots and len(self.waiting) >= self.queue:
            self.throttled += 1
            return 429, {"error": {"code": "queue_full"}}
        number = len(self.jobs)
        pages = max(1, len(PAGE.findall(body)))
        identifier = f"job-{number}"
        seconds = self._seconds(label, pages)
        self.jobs[identifier] = Job(number, label, pages, seconds, now)
        self.by_key[label + key] = identifier
        if len(self.running) < self.slots:
            self._start(identifier, now)
        else:
            self.waiting.append(identifier)
        return 202, {"job_id": identifier, "status": "queued"}

    def _seconds(self, label: str, pages: int) -> float:
        """The n-th job of so many pages runs equally long for each label: clients are compared on
        the same run times, in whatever order they submit."""
        self.alike[label, pages] += 1
        return self.seconds_of(
            random.Random(f"{self.seed} {pages} {self.alike[label, pages]}"), pages
        )

    def poll(self, identifier: str) -> tuple[int, dict[str, Any]]:
        now = time()
        self.advance(now)
        job = self.jobs.get(identifier)
        if job is None:
            return 404, {"error": {"code": "job_not_found"}}
        self.polls += 1
        job.polls += 1
        if job.finished is None:
            return 200, {"job_id": identifier, "status": "running"}
        if job.seen is None:
            job.seen = now
            assert job.started is not None
            waited, ran = job.started - job.accepted, job.finished - job.started
            lag = now - job.finished
            self.finished.append((waited, ran, job.finished, lag, job.polls, job.label, job.pages))
        image = tiny_png(job.number)
        checksum = hashlib.sha256(image).hexdigest()
        return 200, {
            "job_id": identifier,
            "status": "completed",
            "pages": job.pages,
            "finished_at": datetime.fromtimestamp(job.finished, UTC).isoformat(),
            "images": [
                {
                    "page": page,
                    "index": 1,
                    "url": f"{self.address}/v1/files/{job.number}.png",
                    "sha256": checksum,
                    "bytes": len(image),
                    "media_type": "image/png",
                }
                for page in range(1, (self.images or job.pages) + 1)
            ],
        }

    def stats(self) -> dict[str, Any]:
        self.advance(time())
        return {
            "jobs": len(self.jobs),
            "running": len(self.running),
            "polls": self.polls,
            "throttled": self.throttled,
            "first_submit": self.jobs["job-0"].accepted if self.jobs else None,
            "finished": self.finished,
        }


class Connection(asyncio.Protocol):
    """HTTP/1.1 with keep-alive; the parser is httptools."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._transport: asyncio.Transport
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._key = ""
        self._body: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's own has no such base

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._transport.close()

    def on_message_begin(self) -> None:
        self._url, self._key, self._body = b"", "", []

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"idempotency-key":
            self._key = value.decode()

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        method, path = self._parser.get_method(), self._url.decode().split("?")[0]
        label, version, rest = path.partition("/v1/")
        path = version + rest if version else path
        service = self._service
        if method == b"POST" and path == "/v1/pdf/extract_images":
            self._answer(*service.submit(label, self._key, b"".join(self._body)))
        elif method == b"GET" and path.startswith("/v1/pdf/job/get/"):
            self._answer(*service.poll(path.rpartition("/")[2]))
        elif method == b"GET" and path.startswith("/v1/files/"):
            self._write(200, tiny_png(int(path[10:-4])), "image/png")
        elif method == b"DELETE":
            self._write(204, b"", "text/plain")
        elif path == "/stats":
            self._answer(200, service.stats())
        else:
            self._answer(200, {"capabilities": []})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        self._write(status, json.dumps(body).encode(), "application/json")

    def _write(self, status: int, body: bytes, content_type: str) -> None:
        extra = "Retry-After: 1\r\nretry-after-ms: 50\r\n" if status == 429 else ""
        head = (
            f"HTTP/1.1 {status} X\r\nContent-Type: {content_type}\r\n"
            f"{extra}Content-Length: {len(body)}\r\n\r\n"
        )
        self._transport.write(head.encode() + body)


async def serve(service: Service, port: int) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(service), "127.0.0.1", port, backlog=1024)
    service.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    print(json.dumps({"listening": service.address}), flush=True)
    await server.serve_forever()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.service", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--slots", type=int, default=1_000_000)
    parser.add_argument("--queue", type=int, default=1_000_000)
    parser.add_argument("--run-time", type=float, default=0.0)
    parser.add_argument(
        "--distribution", choices=("fixed", "lognormal", "pages", "mix"), default="fixed"
    )
    parser.add_argument("--sigma", type=float, default=1.0)
    parser.add_argument("--per-page", type=float, default=0.01)
    parser.add_argument("--images", type=int, default=None, help="per document, not one a page")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    service = Service(
        given.slots,
        given.queue,
        run_time(given.distribution, given.run_time, given.sigma, given.per_page),
        given.seed,
        given.images,
    )
    uvloop.run(serve(service, given.port))
    return 0


if __name__ == "__main__":
    sys.exit(main())
