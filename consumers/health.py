"""The worker's HTTP side: ``/metrics``, ``/live``, ``/ready``, ``/status``. Read-only, no content.

Liveness is the age of the control loop's heartbeat, never of messages: an idle worker lives.
Readiness says whether this worker can take work: joined to its group, no breaker open.
"""

from __future__ import annotations

import json
import logging
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

Answer = tuple[int, str, bytes]
"""Status, content type, body."""

CONTENT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
)
"""No scripts, and nothing from anywhere else."""

log = logging.getLogger("bundles.http")


@dataclass(frozen=True, slots=True)
class Request:
    """What a page may depend on. ``query``: the last value of each name."""

    accept: str
    query: Mapping[str, str]


Page = Callable[[Request], Answer]


@dataclass(frozen=True, slots=True)
class Check:
    ok: bool
    reason: str = ""


class HealthServer:
    """Serves in daemon threads of its own; callbacks must be quick and thread-safe."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        registry: CollectorRegistry,
        live: Callable[[], Check],
        ready: Callable[[], Check],
        pages: Mapping[str, Page] | None = None,
        before_scrape: Callable[[], None] = lambda: None,
    ) -> None:
        """:raises OSError: the address cannot be bound."""
        routes: dict[str, Page] = {
            "/metrics": lambda request: _metrics(registry, request.accept, before_scrape),
            "/live": lambda _: _check(live()),
            "/ready": lambda _: _check(ready()),
            **(pages or {}),
        }
        self._server = ThreadingHTTPServer((host, port), _handler(routes))
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="health", daemon=True
        )
        self._thread.start()

    @property
    def address(self) -> str:
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _check(check: Check) -> Answer:
    status = HTTPStatus.OK if check.ok else HTTPStatus.SERVICE_UNAVAILABLE
    body: dict[str, Any] = {"ok": check.ok}
    if check.reason:
        body["reason"] = check.reason
    return status, "application/json", json.dumps(body).encode()


def _metrics(registry: CollectorRegistry, accept: str, before_scrape: Callable[[], None]) -> Answer:
    before_scrape()
    encoder, content_type = choose_encoder(accept)
    return HTTPStatus.OK, content_type, encoder(registry)


def _handler(routes: Mapping[str, Page]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 10
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            route = routes.get(url.path)
            if route is None:
                known = ", ".join(sorted(routes))
                answer: Answer = (HTTPStatus.NOT_FOUND, "text/plain", f"try {known}\n".encode())
            else:
                query = {name: values[-1] for name, values in parse_qs(url.query).items()}
                try:
                    answer = route(Request(self.headers.get("Accept", ""), query))
                except Exception as error:
                    frames = "".join(traceback.format_tb(error.__traceback__))
                    log.error("%s failed: %s\n%s", url.path, type(error).__name__, frames)
                    answer = (HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain", b"see the log\n")
            status, content_type, body = answer
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("Content-Security-Policy", CONTENT_POLICY)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Scrapes are not news."""

    return Handler
